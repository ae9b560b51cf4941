package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	customclient "k8s.io/metrics/pkg/client/custom_metrics"
)

// gate keeps the workers from waiting all for an API that does not answer. It shuts once
// a request got no answer and no other request got one meanwhile. Then a single request
// at a time tries whether the API answers again, no sooner than after a pause. The others
// fail at once.
type gate struct {
	pause time.Duration

	mu       sync.Mutex
	fault    error     // why it is shut; nil: open
	answered time.Time // the last answer to any request
	after    time.Time
	trying   bool
}

func newGate(pause time.Duration) *gate { return &gate{pause: pause} }

// ask sends a request through the gate.
func ask[T any](g *gate, request func() (T, error)) (answer T, err error) {
	if err := g.enter(); err != nil {
		return answer, err
	}
	began := time.Now()
	// A request that panics leaves as one that failed.
	left := false
	defer func() {
		if !left {
			g.leave(began, nil)
		}
	}()
	answer, err = request()
	left = true
	g.leave(began, err)
	return answer, err
}

func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.fault == nil:
		return nil
	case g.trying || time.Now().Before(g.after):
		return fmt.Errorf("it did not answer a moment ago: %w", g.fault)
	}
	g.trying = true
	return nil
}

// leave notes how a request ended that began at began. Where the API answered others
// meanwhile, one slow metric does not shut it.
func (g *gate) leave(began time.Time, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	if !isTimeout(err) {
		g.fault, g.answered = nil, time.Now()
		return
	}
	if g.answered.After(began) {
		return
	}
	g.fault, g.after = err, time.Now().Add(g.pause)
}

// isTimeout says whether an error means that no answer came in time.
func isTimeout(err error) bool {
	var slow net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout() ||
		apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// versions asks anew which version of custom metrics is served, once a period, where it
// is asked for.
type versions struct {
	customclient.AvailableAPIsGetter
	period time.Duration

	mu   sync.Mutex
	last time.Time
}

// PreferredVersion implements customclient.AvailableAPIsGetter.
func (v *versions) PreferredVersion() (schema.GroupVersion, error) {
	v.mu.Lock()
	if time.Since(v.last) > v.period {
		v.last = time.Now()
		v.Invalidate()
	}
	v.mu.Unlock()
	return v.AvailableAPIsGetter.PreferredVersion()
}
