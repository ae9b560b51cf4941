package kernel

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pintle.dev/pintle/kernel/config"
)

// slowBundle is a bundle of controllers that takes its time, and writes into a diary.
type slowBundle struct {
	name         string
	diary        *diary
	starts, ends time.Duration // that it takes

	mu      sync.Mutex
	leading context.Context // its gates are open until that ends
	ended   chan struct{}   // nil: it does not run
}

// open reports whether its controllers run and may write.
func (b *slowBundle) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended != nil && b.leading.Err() == nil
}

func (b *slowBundle) stop(word string, ended chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended == ended && ended != nil {
		close(ended)
		b.ended = nil
		b.diary.write(b.name + " " + word)
	}
}

func (b *slowBundle) work() controllerWork {
	now := func() chan struct{} { b.mu.Lock(); defer b.mu.Unlock(); return b.ended }
	return controllerWork{
		while: func(leading context.Context) { b.mu.Lock(); defer b.mu.Unlock(); b.leading = leading },
		take: func(mine bool) error {
			if !mine {
				ended := now()
				b.diary.write(b.name + " is to end")
				time.AfterFunc(b.ends, func() { b.stop("ends", ended) })
				return nil
			}
			time.Sleep(b.starts)
			b.mu.Lock()
			b.ended = make(chan struct{})
			gates := " starts, open"
			if b.leading.Err() != nil {
				gates = " starts, closed"
			}
			b.mu.Unlock()
			b.diary.write(b.name + gates)
			return nil
		},
		await: func(ctx context.Context) error {
			ended := now()
			if ended == nil {
				return nil
			}
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		kill: func() { b.stop("is killed", now()) },
		log:  slog.New(slog.DiscardHandler),
	}
}

// TestSlowBundles: the lead moves between two kernels, and the bundle of the one starts or
// ends more slowly than a Lease lasts. Where it gives the Lease up, the other one's
// controllers begin when its own have ended. Where it has lost the Lease, the other one does
// not wait, and what the slow bundle does from then on, it does behind closed gates.
func TestSlowBundles(t *testing.T) {
	for name, tt := range map[string]struct {
		starts, ends time.Duration // that the first kernel's bundle takes
		leaves       time.Duration // after which the first kernel gives the lead up, or loses it
		lost         bool
		want         []string
	}{
		"slow start, given up":    {time.Minute, 0, 30 * time.Second, false, []string{"first starts, open", "first is to end", "first ends", "second starts, open"}},
		"slow start, lost":        {time.Minute, 0, 5 * time.Second, true, []string{"second starts, open", "first starts, closed", "first is to end", "first ends"}},
		"slow end, given up":      {0, controllersEnd - time.Second, time.Minute, false, []string{"first starts, open", "first is to end", "first ends", "second starts, open"}},
		"slow end, lost":          {0, controllersEnd - time.Second, time.Minute, true, []string{"first starts, open", "first is to end", "second starts, open", "first ends"}},
		"endless end, given up":   {0, time.Hour, time.Minute, false, []string{"first starts, open", "first is to end", "first is killed", "second starts, open"}},
		"endless end, lost":       {0, time.Hour, time.Minute, true, []string{"first starts, open", "first is to end", "second starts, open", "first is killed"}},
		"slow both ways, lost":    {time.Minute, time.Hour, 5 * time.Second, true, []string{"second starts, open", "first starts, closed", "first is to end", "first is killed"}},
		"slow start, never gives": {time.Minute, 0, 2 * time.Hour, false, []string{"first starts, open"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				first := &slowBundle{name: "first", diary: d, starts: tt.starts, ends: tt.ends}
				second := &slowBundle{name: "second", diary: d}
				leases := fake.NewClientset().CoordinationV1()
				ctx, cancel := context.WithCancel(t.Context())
				var kernels sync.WaitGroup
				defer kernels.Wait()
				defer cancel()
				var both atomic.Bool
				run := func(ctx context.Context, b *slowBundle) *hanging {
					lock := &hanging{Interface: &resourcelock.LeaseLock{
						LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l"}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: b.name},
					}}
					l := &leader{
						cfg: config.Election{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
						log: slog.New(slog.DiscardHandler), lock: lock, work: b.work().term,
					}
					kernels.Go(func() {
						for ctx.Err() == nil {
							if err := l.once(ctx); err != nil {
								t.Errorf("%s: %v", b.name, err)
								return
							}
						}
					})
					return lock
				}
				leaving, leave := context.WithCancel(ctx)
				defer leave()
				lock := run(leaving, first)
				time.Sleep(time.Second)
				run(ctx, second)
				kernels.Go(func() {
					for ctx.Err() == nil {
						both.Store(both.Load() || first.open() && second.open())
						time.Sleep(50 * time.Millisecond)
					}
				})
				time.Sleep(tt.leaves)
				if tt.lost {
					lock.stopped.Store(true)
				} else if tt.leaves < time.Hour {
					leave()
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if got := d.read(); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if both.Load() {
					t.Error("controllers of both kernels could write at the same time")
				}
			})
		})
	}
}
