package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: the start waits for what is expected, and for no longer than it may.
func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		expects bool
		settles time.Duration // 0: never
		want    time.Duration
	}{
		"nothing expected": {false, 0, 0},
		"settled":          {true, 3 * time.Second, 3 * time.Second},
		"never settled":    {true, 0, 30 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &Exchange{}
			if c.expects {
				settled := e.Expect()
				if c.settles > 0 {
					time.AfterFunc(c.settles, func() { settled(); settled() })
				}
			}
			began := time.Now()
			e.Await(t.Context(), 30*time.Second)
			if got := time.Since(began); got != c.want {
				t.Errorf("%s: it waited %s, want %s", name, got, c.want)
			}
		})
	}
	e := &Exchange{}
	defer e.Expect()()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Await(ctx, time.Hour) // the end of the plugin ends it
}

// TestOffer: objects are offered until they are withdrawn, and changes and what has to be
// written pass.
func TestOffer(t *testing.T) {
	e := &Exchange{}
	e.Changed()
	e.Tell(Output{})
	changes, outputs := 0, 0
	leave := e.Follow(func() { changes++ })
	withdraw := e.Offer(func() *Objects { return &Objects{} }, func(Output) { outputs++ })
	if e.Objects() == nil {
		t.Error("nothing is offered")
	}
	e.Tell(Output{})
	withdraw()
	e.Tell(Output{})
	if e.Objects() != nil || changes != 2 || outputs != 1 {
		t.Errorf("%d changes, %d outputs, offered %v", changes, outputs, e.Objects())
	}
	leave()
	if e.Changed(); changes != 2 {
		t.Error("a change passes to one that left")
	}
}
