package maintenance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/store"
)

// runningStore opens and runs a store; stop ends it in order.
func runningStore(t testing.TB, dir string) (s *store.Store, stop func()) {
	t.Helper()
	s, err := store.Open(store.Config{Dir: dir, MinFreeBytes: -1, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func commit(t testing.TB, s *store.Store, w store.Write) uint64 {
	t.Helper()
	w.Expect = store.AnyRevision
	revision, err := s.Commit(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// content renders keys and values of a store, with their revisions when those matter.
func content(t testing.TB, dir string, revisions bool) string {
	t.Helper()
	s, closeStore, err := store.OpenReading(store.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	snapshot, err := s.Snapshot(0)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := snapshot.Ascend("", "", func(i *store.Item) bool {
		kv, err := i.Load()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s=%s ends:%v", kv.Key, kv.Value, kv.Expires != 0)
		if revisions {
			fmt.Fprintf(&out, "@%d", kv.Revision)
		}
		out.WriteByte('\n')
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestMigrate: every key goes to etcd and comes back with the bytes and the time to live it had; a migration that was
// broken off goes on; one onto other keys is refused; from etcd the revisions are kept.
func TestMigrate(t *testing.T) {
	server, err := cluster.StartEtcd(t.Context(), nil, t.TempDir(), false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dir := filepath.Join(t.TempDir(), "store")
	s, stop := runningStore(t, dir)
	for i := range 250 {
		commit(t, s, store.Write{Key: fmt.Sprintf("/registry/pods/ns/p%03d", i), Value: fmt.Appendf(nil, "pod %d", i)})
	}
	commit(t, s, store.Write{Key: "/registry/events/ns/e", Value: []byte("event"), TTL: 3600})
	stop()
	quiet := func(string, int64, int64) {}
	etcd := Etcd{Servers: client.Endpoints(), Prefix: "/other"}
	cfg := store.Config{Dir: dir, MinFreeBytes: -1}

	ctx, cancel := context.WithCancel(t.Context())
	if _, err := ToEtcd(ctx, cfg, etcd, func(_ string, done, _ int64) {
		if done == 205 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run it again to go on") {
		t.Fatalf("broken off: %v", err)
	}
	back := filepath.Join(t.TempDir(), "store")
	if _, err := FromEtcd(t.Context(), store.Config{Dir: back, MinFreeBytes: -1}, etcd, quiet); err == nil || !strings.Contains(err.Error(), "complete that one first") {
		t.Errorf("from a half-made copy: %v", err)
	}
	m, err := ToEtcd(t.Context(), cfg, etcd, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if m.Keys != 251 || m.Present == 0 || m.Present == 251 || m.VersionsKept {
		t.Errorf("%+v", m)
	}
	if _, err := ToEtcd(t.Context(), cfg, etcd, quiet); err == nil || !strings.Contains(err.Error(), "251 keys below /other/ already") {
		t.Errorf("onto other keys: %v", err)
	}
	res, err := client.Get(t.Context(), "/other/pods/ns/p007")
	if err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != "pod 7" {
		t.Fatalf("in etcd: %v, %v", res, err)
	}

	if m, err = FromEtcd(t.Context(), store.Config{Dir: back, MinFreeBytes: -1}, etcd, quiet); err != nil {
		t.Fatal(err)
	}
	if m.Keys != 251 || !m.VersionsKept {
		t.Errorf("%+v", m)
	}
	if got, want := content(t, back, false), content(t, dir, false); got != want {
		t.Errorf("came back as\n%s\nwant\n%s", got, want)
	}
	if got, want := content(t, back, true), fmt.Sprintf("/registry/pods/ns/p007=pod 7 ends:false@%d\n", res.Kvs[0].ModRevision); !strings.Contains(got, want) {
		t.Errorf("%q is not in\n%s", want, got)
	}
	if _, err := FromEtcd(t.Context(), store.Config{Dir: back, MinFreeBytes: -1}, etcd, quiet); !errors.As(err, new(*store.NotEmptyError)) {
		t.Errorf("onto a store: %v", err)
	}
	if _, err := client.Delete(t.Context(), "/other/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if _, err := FromEtcd(t.Context(), store.Config{Dir: back + "2", MinFreeBytes: -1}, etcd, quiet); err == nil || !strings.Contains(err.Error(), "nothing below /other/") {
		t.Errorf("from nothing: %v", err)
	}
}
