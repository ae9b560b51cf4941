package plugin

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// opened notes which identities a host has opened and not released.
type opened struct {
	mu   sync.Mutex
	has  map[string]bool
	path string
}

func (o *opened) identity(_ context.Context, name string, _ Access) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.has[name] = true
	return o.path, nil
}

func (o *opened) release(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.has, name)
}

func (o *opened) names() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.has)
}

// A bundle of which nothing is in use is there by its manifest alone: it is
// listed, nothing of it runs, the API knows it by no socket and it has no rights.
// Each of that begins with the first plugin that is in use, and ends with the last.
func TestInstalledIsNotInForce(t *testing.T) {
	api := newFakeAPI(t, "a")
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, manifest.TransportWASM)
			cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "greeter", Transport: transport})
			o := &opened{has: map[string]bool{}, path: api.socket}
			h := runHostWith(t, cfg, nil, Deps{Identity: o.identity, Release: o.release})
			idle := func(what string) {
				t.Helper()
				for _, name := range []string{"greeter", "label", "refuse"} {
					s := objectOf(h, name).Status
					if s.State != v1alpha1.PluginStateDisabled || s.PID != 0 || s.Version != "1.0.0" || s.Digest == "" {
						t.Errorf("%s: %s is %+v, want it Disabled, with its version", what, name, s)
					}
				}
				for _, u := range h.present().units {
					if u.bundle.Manifest.Name == "greeter" && u.halt != nil {
						t.Errorf("%s: the bundle was started", what)
					}
				}
				if g := h.present().grants(); len(g) > 0 {
					t.Errorf("%s: granted %v", what, g)
				}
				poll(t, "sockets are closed", func() bool { return o.names() == 0 })
			}
			idle("installed")

			cfg.Admission = []string{"label"}
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			s := objectOf(h, "label").Status
			if s.State != v1alpha1.PluginStateReady || transport == manifest.TransportProcess && s.PID == 0 {
				t.Fatalf("label is %+v, want it Ready", s)
			}
			if _, ok := h.present().grants()["greeter"]; ok || o.names() > 0 {
				t.Errorf("the controller beside an admission plugin in use is granted something")
			}

			cfg.Controllers = []string{"greeter"}
			if transport == manifest.TransportProcess {
				cfg.Controllers = nil // its informers would want more of an API
			}
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			if transport == manifest.TransportWASM {
				poll(t, "the socket is open", func() bool { return o.names() == 1 })
				if len(h.present().grants()["greeter"].Rules) != 2 {
					t.Errorf("granted %v, want both rules", h.present().grants())
				}
				// Off, while the bundle goes on.
				cfg.Controllers = nil
				if err := h.Reconfigure(cfg); err != nil {
					t.Fatal(err)
				}
				poll(t, "the socket is closed", func() bool { return o.names() == 0 })
			}

			cfg.Admission = nil
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			idle("switched off")
			if s.PID != 0 {
				poll(t, "the process is gone", func() bool { return syscall.Kill(int(s.PID), 0) != nil })
			}

			// What ended starts again.
			cfg.Admission = []string{"refuse"}
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			if s := objectOf(h, "refuse").Status; s.State != v1alpha1.PluginStateReady {
				t.Errorf("refuse is %+v, want it Ready", s)
			}
		})
	}
}

// A controller that waits for something to ask for it is enabled and Idle, and nothing of it is
// in force. It starts when it waits no more. Who switches it off by its object keeps it off, also when
// something asks. A name that no bundle has is a fault all the same.
func TestWaitingController(t *testing.T) {
	api := newFakeAPI(t, "a")
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "greeter", Transport: manifest.TransportWASM})
	cfg.Controllers, cfg.Waiting = []string{"greeter"}, []string{"greeter"}
	o := &opened{has: map[string]bool{}, path: api.socket}
	h := runHostWith(t, cfg, nil, Deps{Identity: o.identity, Release: o.release})
	off := func(what string, state v1alpha1.PluginState) {
		t.Helper()
		if s := objectOf(h, "greeter").Status; s.State != state || s.PID != 0 || (s.Message == "") != (state != v1alpha1.PluginStateIdle) {
			t.Errorf("%s: it is %+v, want it %s", what, s, state)
		}
		if g := h.present().grants(); len(g) > 0 || o.names() > 0 {
			t.Errorf("%s: granted %v, %d sockets", what, g, o.names())
		}
	}
	off("waiting", v1alpha1.PluginStateIdle)
	if spec := objectOf(h, "greeter").Spec; spec.Enabled == nil || !*spec.Enabled {
		t.Errorf("its object says %+v, want it enabled: the operator can say otherwise", spec)
	}
	cfg.Waiting = nil
	if err := h.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	poll(t, "the socket is open", func() bool { return o.names() == 1 })
	if s := objectOf(h, "greeter").Status; s.State == v1alpha1.PluginStateIdle {
		t.Errorf("asked for, it is %+v", s)
	}
	cfg.Controllers, cfg.Waiting = []string{"greeter", "nobody"}, []string{"nobody"}
	if err := h.Reconfigure(cfg); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a name that no bundle has: %v", err)
	}
}
