package identitylease

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
)

// Upstream's.
const (
	label       = "apiserver.kubernetes.io/identity"
	component   = "kube-apiserver"
	lives       = time.Hour
	renewEvery  = 10 * time.Second
	collectEach = time.Hour
)

// Config is what a Keeper works with.
type Config struct {
	Client kubernetes.Interface
	// Name of the Lease; Identity makes one.
	Name, Hostname string
	Clock          clock.WithTicker
	Logger         *slog.Logger
}

// Identity names a kernel by its machine and its data directory: several may run on
// one machine.
func Identity(hostname, dataDir string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s", len(hostname), hostname, len(dataDir), dataDir))
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// Keeper keeps the Lease of one kernel.
type Keeper struct {
	cfg     Config
	renewal lease.Controller
	cancel  context.CancelFunc
	stopped context.Context
	running sync.WaitGroup
}

// New makes a Keeper, which Run starts.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg}
	k.stopped, k.cancel = context.WithCancel(context.Background())
	k.renewal = lease.NewController(cfg.Clock, cfg.Client, cfg.Name+"_"+string(uuid.NewUUID()), int32(lives/time.Second), nil, renewEvery,
		cfg.Name, metav1.NamespaceSystem, func(l *coordinationv1.Lease) error {
			if l.Labels == nil {
				l.Labels = map[string]string{}
			}
			l.Labels[label], l.Labels[corev1.LabelHostname] = component, cfg.Hostname
			return nil
		})
	return k
}

// Run renews the Lease, and takes away those of others that are over, until ctx is
// done or the Lease is released.
func (k *Keeper) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.stopped, cancel)()
	k.running.Add(1)
	defer k.running.Done()
	k.running.Go(func() { k.renewal.Run(ctx) })
	tick := k.cfg.Clock.NewTicker(collectEach)
	defer tick.Stop()
	for {
		k.collect(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

// Release deletes the Lease at an orderly stop. It waits no longer than ctx.
func (k *Keeper) Release(ctx context.Context) error {
	k.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.running.Wait()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	if err := k.cfg.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, k.cfg.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("lease %s/%s: %w", metav1.NamespaceSystem, k.cfg.Name, err)
	}
	return nil
}

// collect deletes what is over, unless it was renewed in between.
func (k *Keeper) collect(ctx context.Context) {
	leases := k.cfg.Client.CoordinationV1().Leases(metav1.NamespaceSystem)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: label + "=" + component})
	if err != nil {
		if ctx.Err() == nil {
			k.cfg.Logger.Warn("leases of API servers that are gone are not taken away", "error", err)
		}
		return
	}
	for i := range list.Items {
		l := &list.Items[i]
		if l.Name == k.cfg.Name || !over(l, k.cfg.Clock.Now()) {
			continue
		}
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}}
		if err := leases.Delete(ctx, l.Name, options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			k.cfg.Logger.Warn("the lease of an API server that is gone is not taken away", "lease", l.Name, "error", err)
		}
	}
}

func over(l *coordinationv1.Lease, now time.Time) bool {
	if l.Spec.RenewTime == nil || l.Spec.LeaseDurationSeconds == nil {
		return true
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second).Before(now)
}
