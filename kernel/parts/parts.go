package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// StopTimeout is how long one part may take to stop.
const StopTimeout = 30 * time.Second

// part is a started piece.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid after done
	told   bool  // err went to failed; valid after done
	// after runs when the part has ended, with a deadline; may be nil.
	after func(ctx context.Context) error
	// limit is how long after may take, and run to end where that is longer than StopTimeout.
	limit time.Duration
}

// Parts runs pieces in order and stops them in reverse.
type Parts struct {
	log    *slog.Logger
	mu     sync.Mutex
	list   []*part
	failed chan error
}

// New has no pieces yet.
func New(log *slog.Logger) *Parts {
	return &Parts{log: log, failed: make(chan error, 1)}
}

// Failed has the fault of the first piece that ended by itself, once. It names the piece.
func (p *Parts) Failed() <-chan error { return p.failed }

// Start runs a piece on a goroutine of its own until Stop. A piece that ends
// before is a fault. after runs when the piece has ended, with a deadline; may be nil.
func (p *Parts) Start(name string, run func(ctx context.Context) error, after func(ctx context.Context) error) {
	p.StartWithin(name, run, after, StopTimeout)
}

// StartWithin is Start with a limit of its own for after. For so long run may take to end, too: a piece that is
// stopping things by itself is waited for.
func (p *Parts) StartWithin(name string, run, after func(ctx context.Context) error, limit time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &part{name: name, cancel: cancel, done: make(chan struct{}), after: after, limit: limit}
	p.mu.Lock()
	p.list = append(p.list, x)
	p.mu.Unlock()
	go func() {
		defer close(x.done)
		x.err = run(ctx)
		if ctx.Err() == nil {
			err := x.err
			if err == nil {
				err = errors.New("ended by itself")
			}
			select {
			case p.failed <- named(name, err):
				x.told = true
			default:
			}
		}
	}()
}

// Stop ends all pieces, the last started first, and returns what went wrong
// meanwhile; what Failed gave is not said again. One that does not end
// in time is named and left behind.
func (p *Parts) Stop() error {
	p.mu.Lock()
	list := slices.Clone(p.list)
	p.mu.Unlock()
	var errs []error
	for _, x := range slices.Backward(list) {
		begin, limit := time.Now(), max(StopTimeout, x.limit)
		x.cancel()
		select {
		case <-x.done:
			if x.err != nil && !x.told && !errors.Is(x.err, context.Canceled) {
				errs = append(errs, named(x.name, x.err))
			}
		case <-time.After(limit):
			errs = append(errs, fmt.Errorf("%s: did not stop within %s", x.name, limit))
			continue
		}
		if x.after != nil {
			ctx, cancel := context.WithTimeout(context.Background(), x.limit)
			// What kept a part from running keeps it from clearing up, too, and
			// need not be said again.
			if err := x.after(ctx); err != nil && (x.err == nil || err.Error() != x.err.Error()) {
				errs = append(errs, named(x.name, err))
			}
			cancel()
		}
		p.log.Debug("stopped", "part", x.name, "took", time.Since(begin).Round(time.Millisecond))
	}
	return errors.Join(errs...)
}

// named says which part an error is of, unless it does so itself.
func named(name string, err error) error {
	if strings.HasPrefix(err.Error(), name+":") {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
