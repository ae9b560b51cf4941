package kernel

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// hanging is a Lease in a store that hangs when it is told to.
type hanging struct {
	resourcelock.Interface
	stopped atomic.Bool
}

func (h *hanging) wait(ctx context.Context) error {
	if !h.stopped.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (h *hanging) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := h.wait(ctx); err != nil {
		return nil, nil, err
	}
	return h.Interface.Get(ctx)
}

func (h *hanging) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Interface.Update(ctx, r)
}

// A leader whose store hangs closes the sockets of its controllers with the Lease,
// while its own work is still stuck, and neither that nor work that cannot be done
// ends it: it leads again when the store is back.
func TestLeaderClosesWithItsLease(t *testing.T) {
	dir, err := os.MkdirTemp("", "lead")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ready := make(chan struct{})
	close(ready)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gates := make(chan *api.Gate, 3)
	ids := &identities{
		directory: dir, ready: func() <-chan struct{} { return ready }, log: slog.New(slog.DiscardHandler), ctx: ctx, cancel: cancel, sockets: map[string]*socket{},
		serve: func(ctx context.Context, ln net.Listener, _ user.Info, s *socket) error {
			gates <- s.gate
			<-ctx.Done()
			return ln.Close()
		},
	}
	lock := &hanging{Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "l"}, Client: fake.NewClientset().CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}}
	stuck, terms := make(chan struct{}), make(chan context.Context, 8)
	var round atomic.Int32
	l := &leader{
		// The Lease is lost when the store hangs, and not because the machine is slow.
		cfg: config.Election{LeaseDuration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 500 * time.Millisecond},
		log: slog.New(slog.DiscardHandler), lock: lock,
		work: func(ctx, leading context.Context) error {
			ids.while(leading)
			terms <- leading
			if round.Add(1) == 2 {
				return errAgain // plugins do not follow, say
			}
			<-ctx.Done()
			<-stuck // a configuration that is being applied
			return nil
		},
	}
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := l.once(ctx); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	first := <-terms
	for _, a := range []struct {
		name    string
		leading bool
	}{{"replicaset", true}, {"binder", false}} {
		if _, err := ids.open(ctx, a.name, plugin.Access{Leading: a.leading}); err != nil {
			t.Fatal(err)
		}
	}
	lock.stopped.Store(true)
	select {
	case <-first.Done():
	case <-time.After(2 * time.Minute):
		t.Fatal("the Lease outlives its renewal")
	}
	open := func() (controllers, others bool) {
		ids.mu.Lock()
		defer ids.mu.Unlock()
		for _, s := range ids.sockets {
			if s.leading {
				controllers = s.gate.Open()
			} else {
				others = s.gate.Open()
			}
		}
		return controllers, others
	}
	if controllers, others := open(); controllers || !others {
		t.Errorf("sockets open: controllers %v, others %v; want the others alone", controllers, others)
	}
	// One that is opened now is closed, too.
	if _, err := ids.open(ctx, "deployment", plugin.Access{Leading: true}); err != nil {
		t.Fatal(err)
	}
	if controllers, _ := open(); controllers {
		t.Error("a socket that is opened without the Lease is open")
	}
	close(stuck)
	lock.stopped.Store(false)
	<-terms // and its work cannot be done
	<-terms
	if controllers, _ := open(); !controllers {
		t.Error("the sockets of controllers are closed while this kernel leads again")
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("the leader ended: %v", err)
	}
	ids.wg.Wait()
}
