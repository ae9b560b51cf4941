package kernel

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"

	"pintle.dev/pintle/kernel/plugin"
)

// The socket of a plugin is there while the plugin is, and again when it comes back;
// what served the former does not take the new one away.
func TestIdentitiesAreReleased(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, err := os.MkdirTemp("", "ids") // short, as paths of sockets are
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ready := make(chan struct{})
	close(ready)
	slow := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ids := &identities{
		directory: dir, ready: func() <-chan struct{} { return ready }, log: slog.New(slog.DiscardHandler), ctx: ctx, cancel: cancel, sockets: map[string]*socket{},
		serve: func(ctx context.Context, ln net.Listener, _ user.Info, _ *socket) error {
			<-ctx.Done()
			<-slow // requests under way
			return ln.Close()
		},
	}
	open := func(name string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		path, err := ids.open(ctx, name, plugin.Access{})
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	there := func(path string) bool {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	one, two := open("one"), open("two")
	if one == two || open("one") != one || !there(one) || !there(two) {
		t.Fatalf("sockets %s and %s", one, two)
	}
	ids.release("one")
	waits, stop := context.WithCancel(t.Context())
	stop()
	if _, err := ids.open(waits, "one", plugin.Access{}); err == nil {
		t.Error("a socket was opened while the former is there")
	}
	close(slow)
	if again := open("one"); again != one || !there(one) || !there(two) {
		t.Errorf("socket %s, want %s again and %s untouched", again, one, two)
	}
	ids.release("two")
	for end := time.Now().Add(2 * time.Minute); there(two); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a released socket is still served")
		}
	}
	if err := ids.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if there(one) || len(ids.sockets) != 0 {
		t.Errorf("%d sockets are left", len(ids.sockets))
	}
}
