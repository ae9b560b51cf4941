package follower

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pintle.dev/pintle/sdk/proxy"
)

// plugin does what a test says.
type plugin struct {
	mu            sync.Mutex
	probe, start  error
	status        proxy.Status
	starts        int
	stopped, tidy bool
	options       proxy.Options
}

func (p *plugin) Probe(context.Context, []byte) error { return p.probe }
func (p *plugin) Apply(context.Context, *proxy.Diff) error {
	return errors.New("it is sent no diffs")
}

func (p *plugin) Start(_ context.Context, o proxy.Options) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts++
	p.options = o
	if p.start == nil {
		p.status.Ready = true
	}
	return p.start
}

func (p *plugin) Status() proxy.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *plugin) Stop(_ context.Context, cleanup bool) error {
	p.stopped, p.tidy = true, cleanup
	return nil
}

func (p *plugin) set(start error, ready bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.status.Ready = start, ready
}

func keeper(t *testing.T, p *plugin, log *bytes.Buffer) *Keeper {
	t.Helper()
	k, err := New(Config{
		Purpose: "network policies", Lost: "not enforced", Back: "enforced again",
		Plugin: "wall", Connect: func() (proxy.Proxy, error) { return p, nil },
		Options: proxy.Options{NodeName: "n", PodCIDRs: []string{"10.244.0.0/24"}}, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestKeep: a plugin that is not ready is started again, which is said once; the stop says
// whether rules stay.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, log := &plugin{}, &bytes.Buffer{}
		k := keeper(t, p, log)
		if err := k.Start(t.Context()); err != nil || p.options.NodeName != "n" {
			t.Fatalf("%v, started with %+v", err, p.options)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(10 * look)
		synctest.Wait()
		if p.starts != 1 {
			t.Errorf("a plugin that is ready was started %d times", p.starts)
		}
		p.set(errors.New("no filter"), false)
		time.Sleep(10 * look)
		synctest.Wait()
		if n := strings.Count(log.String(), "no filter"); n != 1 || p.starts < 5 {
			t.Errorf("the fault was said %d times at %d starts", n, p.starts)
		}
		p.set(nil, false)
		time.Sleep(3 * look)
		synctest.Wait()
		if !strings.Contains(log.String(), "enforced again") {
			t.Errorf("log:\n%s", log)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := k.Stop(t.Context(), true); err != nil || !p.stopped || !p.tidy {
			t.Errorf("%v, stopped %t, tidy %t", err, p.stopped, p.tidy)
		}
	})
}

// TestStartWaits: a start goes on while the plugin's way to the API opens, not for ever.
func TestStartWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plugin{start: errors.New("its socket is not open yet")}
		time.AfterFunc(5*time.Second, func() { p.set(nil, false) })
		begun := time.Now()
		if err := keeper(t, p, &bytes.Buffer{}).Start(t.Context()); err != nil || time.Since(begun) > 6*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		p.set(errors.New("its socket is not open yet"), false)
		begun = time.Now()
		if err := keeper(t, p, &bytes.Buffer{}).Start(t.Context()); err == nil || time.Since(begun) > 2*startTimeout {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// TestCannot: why this machine cannot is the error of a start, at once.
func TestCannot(t *testing.T) {
	p := &plugin{probe: fmt.Errorf("%w: no nf_tables", proxy.ErrUnusable)}
	if err := keeper(t, p, &bytes.Buffer{}).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "plugin wall: ") || !strings.Contains(err.Error(), "no nf_tables") {
		t.Errorf("%v", err)
	}
	for _, cfg := range []Config{{}, {Plugin: "wall"}, {Plugin: "wall", Connect: func() (proxy.Proxy, error) { return nil, nil }}, {Purpose: "walls", Lost: "no", Back: "yes"}, {Purpose: "walls", Lost: "no", Back: "yes", Plugin: "wall", Connect: func() (proxy.Proxy, error) { return nil, nil }}} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	gone := errors.New("its bundle is not loaded")
	k, err := New(Config{Purpose: "walls", Lost: "no", Back: "yes", Plugin: "wall", Connect: func() (proxy.Proxy, error) { return nil, gone }, Options: proxy.Options{NodeName: "n"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.start(t.Context()); !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := k.Stop(t.Context(), true); err != nil {
		t.Errorf("a stop of what never started: %v", err)
	}
}
