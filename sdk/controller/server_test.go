package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

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
	deadline := time.Now().Add(time.Minute)
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
