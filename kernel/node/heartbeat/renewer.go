package heartbeat

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// jitter keeps nodes that started together from renewing together.
	jitter = 0.04
	// fastest and slowest are the pauses after failures.
	fastest, slowest = 200 * time.Millisecond, 7 * time.Second
)

// Config is what a renewer is told; all are required.
type Config struct {
	Name            string // of node and Lease
	Duration, Renew time.Duration
}

// Renewer keeps one Lease. Its calls come one at a time.
type Renewer struct {
	cfg    Config
	client typedcoordinationv1.LeasesGetter
	// owner is the Node that the Lease goes with, nil while it is not known.
	owner  func() *corev1.Node
	logger *slog.Logger

	latest *coordinationv1.Lease // as last written or read; nil: not known
	pause  time.Duration         // after the last failure; 0: there was none
}

// New makes a renewer that has not written yet.
func New(cfg Config, client typedcoordinationv1.LeasesGetter, owner func() *corev1.Node, logger *slog.Logger) *Renewer {
	return &Renewer{cfg: cfg, client: client, owner: owner, logger: logger}
}

// Renew writes the Lease now and answers when to do so again.
func (r *Renewer) Renew(ctx context.Context) time.Duration {
	err := r.write(ctx)
	if err == nil {
		if r.pause > 0 {
			r.logger.Info("the node's Lease is renewed again")
		}
		r.pause = 0
		return wait.Jitter(r.cfg.Renew, jitter)
	}
	if r.pause == 0 && ctx.Err() == nil {
		r.logger.Warn("could not renew the node's Lease; trying again", "err", err)
	}
	r.pause = min(max(2*r.pause, fastest), slowest, r.cfg.Renew)
	return r.pause
}

// write renews on the version last seen; when that is not the Lease's any more, on the one that is there.
func (r *Renewer) write(ctx context.Context) error {
	leases := r.client.Leases(corev1.NamespaceNodeLease)
	if r.latest != nil {
		err := r.keep(leases.Update(ctx, r.renewed(r.latest), metav1.UpdateOptions{}))
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
		r.latest = nil
	}
	have, err := leases.Get(ctx, r.cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Name, Namespace: corev1.NamespaceNodeLease}}
		return r.keep(leases.Create(ctx, r.renewed(fresh), metav1.CreateOptions{}))
	case err != nil:
		return fmt.Errorf("read Lease %s/%s: %w", corev1.NamespaceNodeLease, r.cfg.Name, err)
	}
	return r.keep(leases.Update(ctx, r.renewed(have), metav1.UpdateOptions{}))
}

// keep remembers what was written. Who wrote which field is not remembered: the API knows, and an update without it
// leaves it to the API.
func (r *Renewer) keep(written *coordinationv1.Lease, err error) error {
	if err != nil {
		return fmt.Errorf("write Lease %s/%s: %w", corev1.NamespaceNodeLease, r.cfg.Name, err)
	}
	written.ManagedFields = nil
	r.latest = written
	return nil
}

// renewed is a Lease with the node's claim as of now.
func (r *Renewer) renewed(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	seconds, now := int32(r.cfg.Duration/time.Second), metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &r.cfg.Name, &seconds, &now
	if n := r.owner(); n != nil && len(l.OwnerReferences) == 0 {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
	}
	return l
}
