package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pintle.dev/pintle/kernel/config"
)

// The Leases behind which work runs that one kernel of a cluster alone may do,
// in kube-system. Names and holders are upstream's, whose roles allow them.
const (
	schedulerLease  = "kube-scheduler"
	controllerLease = "kube-controller-manager"
)

var controllerIdentity = &user.DefaultInfo{Name: user.KubeControllerManager}

// newHolder names this kernel in Leases: its machine, and this start of it.
func newHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return host + "_" + uuid.NewString()
}

// term is one time of holding a Lease: work, which must return when its
// context ends. leading lasts as long as the Lease is this kernel's, which may be
// longer where the kernel stops.
type term func(ctx, leading context.Context) error

// errAgain is what work returns that could not be done and may be tried again:
// the Lease is given up, and this kernel does not want it for as long as one lasts.
// Others try in shorter periods, and have it first.
var errAgain = errors.New("it is tried again")

// lead runs work while this kernel holds a Lease, again and again, until ctx
// ends. When the Lease cannot be renewed within RenewDeadline the work's context
// ends, and nobody else gets the Lease before LeaseDuration. At an orderly end
// the Lease is given up as soon as the work has ended, so that another kernel
// need not wait. Work that fails ends lead with its error.
func (k *Kernel) lead(ctx context.Context, cfg config.Election, lease string, who user.Info, work term) error {
	rc := k.api.ClientConfig(who)
	rc.Timeout = cfg.RenewDeadline / 2
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("lease %s: client: %w", lease, err)
	}
	l := &leader{
		cfg: cfg, log: k.log.With("part", "leader election", "lease", lease), work: work,
		lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: lease}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: k.holder},
		},
	}
	for ctx.Err() == nil {
		if err := l.once(ctx); err != nil {
			return fmt.Errorf("lease %s: %w", lease, err)
		}
	}
	return nil
}

type leader struct {
	cfg  config.Election
	lock resourcelock.Interface
	log  *slog.Logger
	work term
}

// once waits for the Lease and works until it is lost or ctx ends.
func (l *leader) once(ctx context.Context) error {
	// The Lease is renewed until the work has ended, which may be after ctx.
	holding, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	started, ended := make(chan context.Context, 1), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l.lock, LeaseDuration: l.cfg.LeaseDuration, RenewDeadline: l.cfg.RenewDeadline, RetryPeriod: l.cfg.RetryPeriod,
		Name: l.lock.Describe(),
		// ReleaseOnCancel would give the Lease up, or try to, before the work has ended.
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { started <- leading },
			OnStoppedLeading: func() {},
			OnNewLeader: func(holder string) {
				if holder != l.lock.Identity() && holder != "" {
					l.log.Info("another kernel leads", "holder", holder)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	go func() {
		defer close(ended)
		elector.Run(holding)
	}()
	select {
	case leading := <-started:
		held, err := l.serve(ctx, leading)
		giveUp()
		<-ended
		if held {
			l.release(ctx)
		}
		if errors.Is(err, errAgain) {
			l.standBack(ctx)
			return nil
		}
		return err
	case <-ended:
	case <-ctx.Done():
		giveUp()
		<-ended
		l.release(ctx)
	}
	return nil
}

// serve works while both contexts last; held says whether the Lease is still
// this kernel's.
func (l *leader) serve(ctx, leading context.Context) (held bool, err error) {
	l.log.Info("this kernel leads", "holder", l.lock.Identity())
	working, stop := context.WithCancel(leading)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	err = l.work(working, leading)
	switch {
	case errors.Is(err, errAgain):
	case working.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		err = nil
	case err == nil:
		err = errors.New("the work ended by itself")
	}
	if leading.Err() != nil {
		l.log.Warn("this kernel leads no more: the Lease could not be renewed in time", "holder", l.lock.Identity())
		return false, err
	}
	return true, err
}

// release lets another kernel take over at once; it takes no more than a try to renew.
func (l *leader) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cfg.RetryPeriod)
	defer cancel()
	for ctx.Err() == nil {
		record, _, err := l.lock.Get(ctx)
		if err != nil || record.HolderIdentity != l.lock.Identity() {
			return
		}
		now := metav1.Now()
		err = l.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
		if err == nil || !apierrors.IsConflict(err) {
			l.log.Info("this kernel has given up the lead", "holder", l.lock.Identity())
			return
		}
	}
}

// standBack leaves the Lease to others.
func (l *leader) standBack(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(l.cfg.LeaseDuration):
	}
}

// nextGenerations leaves room between the generations of two schedulers of this
// process.
func (k *Kernel) nextGenerations() uint64 {
	if !k.shared {
		return 0
	}
	return uint64(time.Now().UnixNano())
}

// duty is work that one kernel of a cluster alone does.
type duty int

const (
	dutyScheduler duty = iota
	dutyControllers
	duties
)

// has reports whether a duty is this kernel's: always, where nobody else could
// have it.
func (k *Kernel) has(d duty) bool {
	k.dutyMu.Lock()
	defer k.dutyMu.Unlock()
	return !k.shared || k.duties[d]
}

// setDuty takes up or lays down a duty; the plugin host follows. On an error it
// does not.
func (k *Kernel) setDuty(d duty, mine bool) error {
	k.hostMu.Lock()
	defer k.hostMu.Unlock()
	k.dutyMu.Lock()
	before := k.duties[d]
	k.duties[d] = mine
	k.dutyMu.Unlock()
	if err := k.host.Reconfigure(k.hostConfig(k.config())); err != nil {
		k.dutyMu.Lock()
		k.duties[d] = before && mine // what is laid down stays so
		k.dutyMu.Unlock()
		return fmt.Errorf("plugins do not follow a change of the lead: %w", err)
	}
	return nil
}

// signs says whether this kernel signs certificate requests while it leads.
func signs(cfg *config.Config) bool { return !slices.Contains(cfg.Control.Disable, "csrsigning") }

// startControllers runs the controllers while this kernel holds their Lease.
func (k *Kernel) startControllers(cfg *config.Config) {
	nobody, cancel := context.WithCancel(context.Background())
	cancel()
	k.ids.while(nobody)
	work := controllerWork{
		while: k.ids.while, take: func(mine bool) error { return k.setDuty(dutyControllers, mine) },
		await: k.host.AwaitControllers, kill: k.host.KillControllers,
		log: k.log.With("part", "controllers"),
	}
	if signs(cfg) {
		work.sign = k.api.SignRequests
	}
	k.parts.Start("controllers", func(ctx context.Context) error {
		return k.lead(ctx, cfg.Election, controllerLease, controllerIdentity, work.term)
	}, nil)
}

// controllerWork is what a kernel does with the Lease of the controllers. Their gates close
// with the Lease, whatever else the kernel is doing; that they end is waited for, and those
// that do not are killed.
type controllerWork struct {
	sign  func(ctx context.Context) error // until ctx ends; nil: another signs
	while func(leading context.Context)   // how long controllers may write
	take  func(mine bool) error           // starts the controllers, or lets them end
	await func(ctx context.Context) error // until they have ended
	kill  func()
	log   *slog.Logger
}

// term is one time of holding the Lease.
func (w controllerWork) term(ctx, leading context.Context) error {
	var signing sync.WaitGroup
	defer signing.Wait()
	while, stop := context.WithCancel(ctx)
	defer stop() // also where controllers do not start, before the wait
	if w.sign != nil {
		signing.Go(func() {
			if err := w.sign(while); err != nil && while.Err() == nil {
				w.log.Error("certificate requests are not signed until another kernel leads", "error", err)
			}
		})
	}
	w.while(leading)
	if err := w.take(true); err != nil {
		w.log.Error("controllers do not start; another kernel may lead", "error", err)
		return errAgain
	}
	<-ctx.Done()
	if err := w.take(false); err != nil {
		w.log.Error("controllers are asked again to end, and cannot write", "error", err)
	}
	// The Lease is not given up before they have ended.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), controllersEnd)
	defer cancel()
	if err := w.await(ending); err != nil {
		w.log.Error("controllers do not end and are killed", "waited", controllersEnd, "error", err)
		w.kill()
	}
	return nil
}

// controllersEnd is how long controllers may take to end.
const controllersEnd = 15 * time.Second
