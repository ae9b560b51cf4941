package kernel

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pintle.dev/pintle/kernel/config"
)

// diary is what kernels did, in its order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

// work is that of a kernel by its name. starts says whether its controllers start, ends
// whether they end by themselves.
func (d *diary) work(name string, starts, ends bool) controllerWork {
	return controllerWork{
		sign: func(ctx context.Context) error {
			d.write(name + " signs")
			<-ctx.Done()
			time.Sleep(time.Second) // what it is about to write
			d.write(name + " signs no more")
			return ctx.Err()
		},
		while: func(context.Context) {},
		take: func(mine bool) error {
			if !mine {
				d.write(name + " lets controllers end")
			} else if starts {
				d.write(name + " starts controllers")
			} else {
				return errors.New("a bundle does not start")
			}
			return nil
		},
		await: func(ctx context.Context) error {
			if ends {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		},
		kill: func() { d.write(name + " kills controllers") },
		log:  slog.New(slog.DiscardHandler),
	}
}

// A kernel whose controllers do not start leaves the Lease to another that waits for it,
// and signs no request by then: two would hand out two certificates.
func TestControllersThatDoNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &diary{}
		cfg := config.Election{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
		leases := fake.NewClientset().CoordinationV1()
		ctx, cancel := context.WithCancel(t.Context())
		var kernels sync.WaitGroup
		defer kernels.Wait()
		defer cancel()
		run := func(name string, starts bool) {
			l := &leader{
				cfg: cfg, log: slog.New(slog.DiscardHandler), work: d.work(name, starts, true).term,
				lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l"}, Client: leases, LockConfig: resourcelock.ResourceLockConfig{Identity: name}},
			}
			kernels.Go(func() {
				for ctx.Err() == nil {
					if err := l.once(ctx); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		// Alone it tries again, a Lease's time later.
		run("first", false)
		time.Sleep(cfg.LeaseDuration)
		synctest.Wait()
		tries := []string{"first signs", "first signs no more"}
		if got := d.read(); !slices.Equal(got, tries) {
			t.Fatalf("at first: %q", got)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := d.read(); !slices.Equal(got, slices.Concat(tries, tries)) {
			t.Fatalf("alone: %q", got)
		}
		run("second", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		got := d.read()
		begun := got[min(len(got), 4):]
		slices.Sort(begun) // of which one is on a goroutine of its own
		if want := []string{"second signs", "second starts controllers"}; !slices.Equal(begun, want) {
			t.Errorf("with another: %q, want %q", begun, want)
		}
	})
}

// At the end of the Lease, or of the kernel, controllers end before others may begin, and
// those that do not are killed; a kernel that ends does not wait for another try.
func TestEndOfControllers(t *testing.T) {
	for name, tt := range map[string]struct {
		starts, ends bool
		want         []string
		after        time.Duration
	}{
		"in order":         {true, true, []string{"k starts controllers", "k lets controllers end", "k signs no more"}, time.Second},
		"killed":           {true, false, []string{"k starts controllers", "k lets controllers end", "k signs no more", "k kills controllers"}, controllersEnd},
		"none has started": {false, true, []string{"k signs no more"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &diary{}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- d.work("k", tt.starts, tt.ends).term(ctx, t.Context()) }()
				synctest.Wait()
				begun := time.Now()
				cancel()
				if err := <-done; err != nil && !errors.Is(err, errAgain) || errors.Is(err, errAgain) == tt.starts {
					t.Errorf("it ended with %v", err)
				}
				if took := time.Since(begun); took != tt.after {
					t.Errorf("it took %s, want %s", took, tt.after)
				}
				got := slices.DeleteFunc(d.read(), func(line string) bool { return line == "k signs" })
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}
