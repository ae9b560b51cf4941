package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/node/hollow"
)

const (
	// namesDuration is how long the Lease of names is valid, namesRenew how often it is
	// renewed.
	namesDuration, namesRenew = 40 * time.Second, 10 * time.Second
	// namesLook is how often a Lease that another process holds is read again.
	namesLook = time.Second
	// nodesPage is how many nodes are listed at once.
	nodesPage = 500
)

// names are the names of one process' nodes, NAME-0 and so on: a Lease that one process
// holds at a time.
type names struct {
	client kubernetes.Interface
	name   string
	nodes  int
	holder string
	logger *slog.Logger
	say    func(format string, args ...any)
}

func leaseName(name string) string { return "pintle-hollow-" + name }

// newHolder names this process: its machine, its process id and this start.
func newHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s_%d_%s", host, os.Getpid(), uuid.NewString())
}

// claim takes the names. A Lease that its holder does not renew any more is waited for.
func (n *names) claim(ctx context.Context) error {
	var seen *metav1.MicroTime // when the Lease was renewed, as it was read first
	for {
		lease, err := n.get(ctx)
		switch {
		case apierrors.IsNotFound(err):
			if err := n.unused(ctx, true); err != nil {
				return err
			}
			err = n.create(ctx)
			if err == nil || !apierrors.IsAlreadyExists(err) {
				return err
			}
			continue // another was quicker
		case err != nil:
			return fmt.Errorf("names of hollow nodes: read Lease %s/%s: %w", metav1.NamespaceSystem, leaseName(n.name), err)
		}
		left := remaining(lease)
		if left <= 0 {
			if err := n.unused(ctx, false); err != nil {
				return err
			}
			if err = n.take(ctx, lease); err == nil || !apierrors.IsConflict(err) {
				return err
			}
			continue
		}
		if seen != nil && !seen.Equal(lease.Spec.RenewTime) {
			return fmt.Errorf("names of hollow nodes: %s-0 to %s-%d are those of another process, %s; choose another --name",
				n.name, n.name, n.nodes-1, ptr.Deref(lease.Spec.HolderIdentity, ""))
		}
		if seen == nil {
			seen = lease.Spec.RenewTime
			n.say("names      Lease %s/%s is held by %s; waiting up to %s to see whether that process lives",
				metav1.NamespaceSystem, lease.Name, ptr.Deref(lease.Spec.HolderIdentity, ""), left.Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, namesLook)):
		}
	}
}

// remaining is for how long a Lease is still its holder's; 0: it is free.
func remaining(lease *coordinationv1.Lease) time.Duration {
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || lease.Spec.RenewTime == nil {
		return 0
	}
	return time.Until(lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second))
}

func (n *names) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, leaseName(n.name), metav1.GetOptions{})
}

func (n *names) create(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName(n.name)}}
	n.hold(lease)
	if _, err := n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("names of hollow nodes: create Lease %s/%s: %w", metav1.NamespaceSystem, lease.Name, err)
	}
	return nil
}

func (n *names) take(ctx context.Context, lease *coordinationv1.Lease) error {
	lease = lease.DeepCopy()
	n.hold(lease)
	if _, err := n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("names of hollow nodes: take Lease %s/%s: %w", metav1.NamespaceSystem, lease.Name, err)
	}
	return nil
}

func (n *names) hold(lease *coordinationv1.Lease) {
	now, seconds := metav1.NowMicro(), int32(namesDuration/time.Second)
	if ptr.Deref(lease.Spec.HolderIdentity, "") != n.holder {
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.holder, &seconds, &now
}

// unused looks at the nodes that have the names already. It is an error if one is no hollow
// node, or, with others, if an agent elsewhere keeps one: a kernel's own hollow nodes hold
// no Lease of names.
func (n *names) unused(ctx context.Context, others bool) error {
	own := map[string]bool{}
	for i := range n.nodes {
		own[fmt.Sprintf("%s-%d", n.name, i)] = true
	}
	first := ""
	for options := (metav1.ListOptions{Limit: nodesPage}); ; {
		page, err := n.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return fmt.Errorf("names of hollow nodes: list nodes: %w", err)
		}
		for i := range page.Items {
			node := &page.Items[i]
			if !own[node.Name] {
				continue
			}
			if _, ok := node.Labels[hollow.Label]; !ok {
				return fmt.Errorf("names of hollow nodes: node %s is there and is no hollow node; choose another --name", node.Name)
			}
			if first == "" {
				first = node.Name
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if first == "" || !others {
		return nil
	}
	lease, err := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, first, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("names of hollow nodes: read Lease %s/%s: %w", corev1.NamespaceNodeLease, first, err)
	}
	if left := remaining(lease); left > 0 {
		return fmt.Errorf("names of hollow nodes: node %s has an agent elsewhere, perhaps in a kernel (hollow.prefix): its Lease is valid for %s; choose another --name",
			first, left.Round(time.Second))
	}
	return nil
}

// keep renews the Lease until ctx ends. It is an error if another process has the names.
func (n *names) keep(ctx context.Context) error {
	tick := time.NewTicker(namesRenew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := n.renew(ctx)
		if err != nil && ctx.Err() == nil {
			if errors.As(err, new(lostError)) {
				return err
			}
			n.logger.Warn("could not renew the Lease of the nodes' names; trying again", "error", err)
		}
	}
}

// lostError says that the names are another process'.
type lostError struct{ holder string }

func (l lostError) Error() string {
	return fmt.Sprintf("names of hollow nodes: another process, %q, took them while this one did not renew its Lease", l.holder)
}

func (n *names) renew(ctx context.Context) error {
	lease, err := n.get(ctx)
	if apierrors.IsNotFound(err) {
		return n.create(ctx)
	}
	if err != nil {
		return err
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != n.holder {
		return lostError{holder}
	}
	return n.take(ctx, lease)
}

// release gives the Lease up, if it is this process'.
func (n *names) release(ctx context.Context) error {
	lease, err := n.get(ctx)
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != n.holder {
		return nil
	}
	if err == nil {
		lease = lease.DeepCopy()
		lease.Spec.HolderIdentity = ptr.To("")
		_, err = n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("names of hollow nodes: give up Lease %s/%s: %w", metav1.NamespaceSystem, leaseName(n.name), err)
	}
	return nil
}
