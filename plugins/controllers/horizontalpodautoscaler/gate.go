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

// gate keeps the workers from waiting all for an API that does not answer. Once one
// waited in vain, a single request at a time tries whether it answers again, no sooner
// than after a pause; the others fail at once.
type gate struct {
	pause time.Duration

	mu     sync.Mutex
	fault  error // why it is shut; nil: open
	after  time.Time
	trying bool
}

func newGate(pause time.Duration) *gate { return &gate{pause: pause} }

// ask sends a request through the gate.
func ask[T any](g *gate, request func() (T, error)) (answer T, err error) {
	if err := g.enter(); err != nil {
		return answer, err
	}
	// A request that panics leaves as one that failed.
	left := false
	defer func() {
		if !left {
			g.leave(nil)
		}
	}()
	answer, err = request()
	left = true
	g.leave(err)
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

func (g *gate) leave(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.trying = false
	if !isTimeout(err) {
		g.fault = nil
		return
	}
	g.fault, g.after = err, time.Now().Add(g.pause)
}

// isTimeout says whether an error means that nobody answered in time.
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
