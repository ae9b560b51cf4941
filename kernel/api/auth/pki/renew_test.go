package pki

import (
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"
)

type counter struct{ n atomic.Int64 }

func (c *counter) Enqueue() { c.n.Add(1) }

func TestRenew(t *testing.T) {
	all := []string{"admin", "apiserver", "apiserver-kubelet-client", "node-n1-client", "node-n1-server", "super-admin"}
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, dir string, now *time.Time)
		want   []string
	}{
		{"nothing to do", func(*testing.T, string, *time.Time) {}, nil},
		{"a day before it has to be", func(_ *testing.T, _ string, now *time.Time) { *now = now.Add(leafLife - renewBefore - 24*time.Hour) }, nil},
		{"a month before the end", func(_ *testing.T, _ string, now *time.Time) { *now = now.Add(leafLife - renewBefore + time.Hour) }, all},
		{"expired", func(_ *testing.T, _ string, now *time.Time) { *now = now.Add(2 * leafLife) }, all},
		{"taken away", func(t *testing.T, dir string, _ *time.Time) {
			if err := os.Remove(filepath.Join(dir, "admin.crt")); err != nil {
				t.Fatal(err)
			}
		}, []string{"admin"}},
		{"damaged", func(t *testing.T, dir string, _ *time.Time) {
			if err := os.WriteFile(filepath.Join(dir, "apiserver.key"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"apiserver"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			dir := t.TempDir()
			p := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
			_, serving, err := p.Node("n1", nil)
			if err != nil {
				t.Fatal(err)
			}
			told := &counter{}
			p.ServingLeaf().AddListener(told)
			before := serving.Pair().Cert.SerialNumber
			tt.change(t, dir, &now)
			got, err := p.Renew()
			slices.Sort(got)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Fatalf("renewed %q, %v; want %q", got, err, tt.want)
			}
			shown, err := serving.GetCertificate(&tls.ClientHelloInfo{})
			if err != nil {
				t.Fatal(err)
			}
			if changed := shown.Leaf.SerialNumber.Cmp(before) != 0; changed != slices.Contains(tt.want, "node-n1-server") {
				t.Errorf("the agent shows another certificate: %v", changed)
			}
			if want := slices.Contains(tt.want, "apiserver"); (told.n.Load() == 1) != want {
				t.Errorf("the server was told %d times, want it: %v", told.n.Load(), want)
			}
			if again, err := p.Renew(); len(again) != 0 || err != nil {
				t.Errorf("renewed again: %q %v", again, err)
			}
			if n := testutil.CollectAndCount(p); n != len(all)+1 {
				t.Errorf("%d metrics", n)
			}
		})
	}
}

// What cannot be renewed is said by name and end, and the former one is shown on.
func TestRenewFails(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	p := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	before := p.Serving().Cert
	for _, f := range []string{"apiserver.crt", "apiserver.key"} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil {
			t.Fatal(err)
		}
		// Nothing is renamed over a folder that holds something.
		if err := os.MkdirAll(filepath.Join(dir, f, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	got, err := p.Renew()
	if err == nil || !strings.Contains(err.Error(), "apiserver.crt, which ends at ") || len(got) != 0 {
		t.Errorf("renewed %q, %v", got, err)
	}
	if !p.Serving().Cert.Equal(before) {
		t.Error("another certificate is shown")
	}
}

func TestKeep(t *testing.T) {
	start := time.Now()
	c := clocktesting.NewFakeClock(start)
	p := open(t, Config{Dir: t.TempDir(), Now: c.Now})
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}), make(chan struct{})
	var log strings.Builder
	go func() {
		defer close(ended)
		p.Keep(ctx, slog.New(slog.NewTextHandler(&log, nil)), c, func() error { changed <- struct{}{}; return nil })
	}()
	for !c.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	c.SetTime(start.Add(caLife - 100*24*time.Hour))
	<-changed
	if got, want := p.Admin().Cert.NotAfter, start.Add(caLife); got.After(want) {
		t.Errorf("the certificate outlives the CA: %v", got)
	}
	cancel()
	<-ended
	for _, want := range []string{"the cluster's CA ends soon", "certificates renewed", "admin"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log without %q:\n%s", want, log.String())
		}
	}
}
