package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Controllers are switched on and off by name; one that fails or panics is
// started again without the others; the last word stops everything.
func TestControllersComeAndGo(t *testing.T) {
	defer goleak.VerifyNone(t)
	attempts := 0
	s := Service(
		Controller{Name: "steady", New: func(c *Context) (Runner, error) {
			if c.RESTConfig == nil || c.Client == nil || c.Informers == nil || string(c.Config) != "{}" {
				t.Errorf("context %+v", c)
			}
			return RunnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }), nil
		}},
		Controller{Name: "shaky", New: func(*Context) (Runner, error) {
			if attempts++; attempts == 1 {
				panic("on purpose")
			}
			return RunnerFunc(func(ctx context.Context) error { <-ctx.Done(); return nil }), nil
		}},
	).(*service)
	grpcSide := &server{service: s}
	start := func(names ...string) error {
		req := &contractv1.ControllerStart{Socket: "/nowhere/bundle.sock"}
		for _, n := range names {
			req.Controllers = append(req.Controllers, &contractv1.ControllerSpec{Name: n, Socket: "/nowhere/" + n, Config: []byte("{}")})
		}
		_, err := grpcSide.Start(t.Context(), req)
		return err
	}
	if err := start("other"); err == nil || !strings.Contains(err.Error(), "it has shaky, steady") {
		t.Errorf("unknown controller: %v", err)
	}
	if err := start("steady", "shaky"); err != nil {
		t.Fatal(err)
	}
	steady := s.running["steady"]
	deadline := time.Now().Add(2 * time.Minute)
	for {
		st, err := grpcSide.Status(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if c := st.GetControllers(); len(c) == 2 && c[0].GetRunning() && c[0].GetRestarts() == 1 && c[1].GetRunning() {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status %v", st)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := start("steady"); err != nil {
		t.Fatal(err)
	}
	if s.running["shaky"] != nil || s.running["steady"] != steady {
		t.Error("the one that was left out runs, or the other was started again")
	}
	if err := s.Stop(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if len(s.running) != 0 {
		t.Errorf("%d controllers run on", len(s.running))
	}
}

// A changed configuration is tried beside the controller that runs, which stays
// where it is refused; what was built to try it leaves nothing behind.
func TestConfigureTriesFirst(t *testing.T) {
	defer goleak.VerifyNone(t)
	ran := make(chan string, 10)
	s := Service(Controller{Name: "one", New: func(c *Context) (Runner, error) {
		switch config := string(c.Config); config {
		case `"bad"`:
			return nil, errors.New("I do not take that")
		case `"worse"`:
			panic("on purpose")
		default:
			pods := c.Informers.Core().V1().Pods().Informer()
			if err := pods.AddIndexers(cache.Indexers{"mine": cache.MetaNamespaceIndexFunc}); err != nil {
				return nil, err
			}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
			return RunnerFunc(func(ctx context.Context) error {
				defer queue.ShutDown()
				if ctx.Err() == nil {
					ran <- config
				}
				<-ctx.Done()
				return nil
			}), nil
		}
	}}).(*service)
	defer s.Stop(t.Context())
	start := func() {
		t.Helper()
		if _, err := (&server{service: s}).Start(t.Context(), &contractv1.ControllerStart{
			Socket: "/nowhere/bundle.sock", Controllers: []*contractv1.ControllerSpec{{Name: "one", Socket: "/nowhere/one"}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Configure("one", []byte(`"first"`)); err != nil {
		t.Fatal(err)
	}
	start()
	if got := <-ran; got != `"first"` {
		t.Fatalf("it runs with %s", got)
	}
	first := s.running["one"]
	for _, c := range []struct{ config, refusal string }{
		{`"bad"`, "I do not take that"},
		{`"worse"`, "on purpose"},
		{`"first"`, ""}, // as the kernel gives it back
	} {
		err := s.Configure("one", []byte(c.config))
		if (err != nil) != (c.refusal != "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: %v; want %q", c.config, err, c.refusal)
		}
		if start(); s.running["one"] != first {
			t.Fatalf("%s: the one that ran was ended", c.config)
		}
	}
}

// A configuration that is no JSON is refused before a controller is started with it; no
// bytes are no configuration.
func TestConfigureRefusesWhatIsNoJSON(t *testing.T) {
	s := Service(Controller{Name: "steady", New: func(*Context) (Runner, error) { return nil, nil }}).(*service)
	for _, bad := range []string{"{", "not JSON", "\x00\xff"} {
		if err := s.Configure("steady", []byte(bad)); err == nil || !strings.Contains(err.Error(), "steady") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"", "{}", `{"a":1}`} {
		if err := s.Configure("steady", []byte(good)); err != nil || string(s.configs["steady"]) != good {
			t.Errorf("%q: %v, it has %q", good, err, s.configs["steady"])
		}
	}
}
