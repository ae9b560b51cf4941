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
	// namesEnd is how long after its last renewal a process ends. Its nodes need the rest of
	// the Lease to stop before another process may take the names.
	namesEnd = 30 * time.Second
	// namesLook is how often a Lease that another process holds is read again.
	namesLook = time.Second
	// stoppedAnnotation of a Lease that was given up names the last renewal of node NAME-0's
	// Lease by that process: who renewed it later is another.
	stoppedAnnotation = "kernel.pintle.dev/hollow-stopped"
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
	// renewed is when the last write of the Lease that succeeded began.
	renewed time.Time
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

// claim takes the names. It waits for a Lease that its holder does not renew any more, and
// for the Lease of node NAME-0, which an agent elsewhere may renew: a kernel's own hollow
// nodes hold no Lease of names. It is an error if either is renewed meanwhile.
func (n *names) claim(ctx context.Context) error {
	var own, agent observed
	for said := false; ; {
		lease, err := n.get(ctx)
		if apierrors.IsNotFound(err) {
			lease, err = nil, nil
		}
		if err != nil {
			return fmt.Errorf("names of hollow nodes: read Lease %s/%s: %w", metav1.NamespaceSystem, leaseName(n.name), err)
		}
		first, err := n.firstNode(ctx)
		if err != nil {
			return err
		}
		agent.look(first)
		left, who := time.Duration(0), ""
		if holder := holderOf(lease); holder != "" {
			if own.look(lease); own.renewed {
				return fmt.Errorf("names of hollow nodes: %s-0 to %s-%d are those of another process, %s; choose another --name",
					n.name, n.name, n.nodes-1, holder)
			}
			left, who = own.left(), fmt.Sprintf("Lease %s/%s is held by %s", metav1.NamespaceSystem, lease.Name, holder)
		}
		if left <= 0 && first != nil && (lease == nil || lease.Annotations[stoppedAnnotation] != renewal(first)) {
			who = fmt.Sprintf("node %s has a Lease", first.Name)
			if left, err = n.elsewhere(first, &agent, holderOf(lease) != ""); err != nil {
				return err
			}
		}
		if left <= 0 {
			done, err := n.free(ctx, lease)
			if done || err != nil {
				return err
			}
			continue // another was quicker
		}
		if !said {
			said = true
			n.say("names      %s; waiting up to %s to see whether it is renewed", who, left.Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, namesLook)):
		}
	}
}

// free takes names that are free. It is false where another process was quicker.
func (n *names) free(ctx context.Context, lease *coordinationv1.Lease) (bool, error) {
	if err := n.unmarked(ctx); err != nil {
		return false, err
	}
	if lease == nil {
		err := n.create(ctx)
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		return true, err
	}
	err := n.take(ctx, lease)
	if apierrors.IsConflict(err) {
		return false, nil
	}
	return true, err
}

// elsewhere is for how long the Lease of the first node is to be watched yet. It is an error
// if an agent elsewhere renews it. One that is valid for long is renewed too seldom to be
// watched: its own dates count, unless a process crashed that had these names.
func (n *names) elsewhere(first *coordinationv1.Lease, seen *observed, crashed bool) (time.Duration, error) {
	left := min(seen.left(), namesDuration-time.Since(seen.since))
	valid := seen.left() > 0 && first.Spec.RenewTime != nil && time.Until(first.Spec.RenewTime.Add(seen.valid)) > 0
	if seen.renewed || left <= 0 && valid && !crashed {
		return 0, fmt.Errorf("names of hollow nodes: node %s has an agent elsewhere, perhaps in a kernel (hollow.prefix), which renews its Lease; choose another --name",
			first.Name)
	}
	return left, nil
}

// observed is a Lease as this process saw it. Its holder's clock may be another: as with
// client-go's leader election the time counts from when a renewal was first seen.
type observed struct {
	renewal string
	since   time.Time // when this renewal was first seen; zero: none was
	valid   time.Duration
	renewed bool // another renewal was seen before
}

func (o *observed) look(lease *coordinationv1.Lease) {
	if lease == nil || !o.since.IsZero() && o.renewal == renewal(lease) {
		return
	}
	o.renewed = !o.since.IsZero()
	o.renewal, o.since, o.valid = renewal(lease), time.Now(), duration(lease)
}

// left is for how long the Lease is still its holder's; 0 or less: it is not.
func (o *observed) left() time.Duration {
	if o.since.IsZero() {
		return 0
	}
	return o.valid - time.Since(o.since)
}

func duration(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}

// renewal names one renewal of one Lease.
func renewal(lease *coordinationv1.Lease) string {
	at := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{})
	return string(lease.UID) + "/" + at.UTC().Format(time.RFC3339Nano)
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// firstNode is the Lease of node NAME-0, which each process and each kernel with these names
// has; nil: there is none.
func (n *names) firstNode(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.name+"-0", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // no Lease is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("names of hollow nodes: read Lease %s/%s-0: %w", corev1.NamespaceNodeLease, n.name, err)
	}
	return lease, nil
}

func (n *names) get(ctx context.Context) (*coordinationv1.Lease, error) {
	return n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, leaseName(n.name), metav1.GetOptions{})
}

func (n *names) create(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: leaseName(n.name)}}
	begun := time.Now()
	n.hold(lease)
	if _, err := n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("names of hollow nodes: create Lease %s/%s: %w", metav1.NamespaceSystem, lease.Name, err)
	}
	n.renewed = begun
	return nil
}

func (n *names) take(ctx context.Context, lease *coordinationv1.Lease) error {
	lease = lease.DeepCopy()
	begun := time.Now()
	n.hold(lease)
	if _, err := n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("names of hollow nodes: take Lease %s/%s: %w", metav1.NamespaceSystem, lease.Name, err)
	}
	n.renewed = begun
	return nil
}

func (n *names) hold(lease *coordinationv1.Lease) {
	now, seconds := metav1.NowMicro(), int32(namesDuration/time.Second)
	if ptr.Deref(lease.Spec.HolderIdentity, "") != n.holder {
		lease.Spec.AcquireTime = &now
	}
	delete(lease.Annotations, stoppedAnnotation)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &n.holder, &seconds, &now
}

// unmarked is an error if a node has one of the names already and is no hollow node.
func (n *names) unmarked(ctx context.Context) error {
	own := map[string]bool{}
	for i := range n.nodes {
		own[fmt.Sprintf("%s-%d", n.name, i)] = true
	}
	for options := (metav1.ListOptions{Limit: nodesPage}); ; {
		page, err := n.client.CoreV1().Nodes().List(ctx, options)
		if err != nil {
			return fmt.Errorf("names of hollow nodes: list nodes: %w", err)
		}
		for i := range page.Items {
			node := &page.Items[i]
			if _, ok := node.Labels[hollow.Label]; own[node.Name] && !ok {
				return fmt.Errorf("names of hollow nodes: node %s is there and is no hollow node; choose another --name", node.Name)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// keep renews the Lease until ctx ends. It is an error if another process has the names, or
// if no renewal succeeded for namesEnd: another may have them soon.
func (n *names) keep(ctx context.Context) error {
	tick := time.NewTicker(namesRenew)
	defer tick.Stop()
	cause := errors.New("no answer in time")
	for {
		end := time.NewTimer(time.Until(n.renewed.Add(namesEnd)))
		select {
		case <-ctx.Done():
			end.Stop()
			return nil
		case <-end.C:
			return lostError{cause: cause}
		case <-tick.C:
			end.Stop()
		}
		err := n.renew(ctx)
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return nil
		case errors.As(err, new(lostError)):
			return err
		}
		cause = err
		n.logger.Warn("could not renew the Lease of the nodes' names; trying again", "error", err)
	}
}

// lostError says that the names are another process', or may be by now.
type lostError struct {
	holder string
	cause  error // why the Lease was not renewed; nil: holder has it
}

func (l lostError) Error() string {
	if l.cause != nil {
		return fmt.Sprintf("names of hollow nodes: their Lease was not renewed for %s, and another process may take them soon: %v; look whether the API server runs",
			namesEnd, l.cause)
	}
	return fmt.Sprintf("names of hollow nodes: another process, %q, took them while this one did not renew its Lease", l.holder)
}

func (l lostError) Unwrap() error { return l.cause }

// renew renews the Lease once. A server that does not answer fails it in time for the next.
func (n *names) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(namesRenew, time.Until(n.renewed.Add(namesEnd))))
	defer cancel()
	lease, err := n.get(ctx)
	if apierrors.IsNotFound(err) {
		return n.create(ctx)
	}
	if err != nil {
		return err
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != n.holder {
		return lostError{holder: holder}
	}
	return n.take(ctx, lease)
}

// release gives the Lease up, if it is this process', after its nodes have stopped.
func (n *names) release(ctx context.Context) error {
	lease, err := n.get(ctx)
	if apierrors.IsNotFound(err) || err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") != n.holder {
		return nil
	}
	if err == nil {
		lease = lease.DeepCopy()
		lease.Spec.HolderIdentity = ptr.To("")
		// Without the annotation the next process waits, which is no harm.
		if first, _ := n.firstNode(ctx); first != nil {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, stoppedAnnotation, renewal(first))
		}
		_, err = n.client.CoordinationV1().Leases(metav1.NamespaceSystem).Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("names of hollow nodes: give up Lease %s/%s: %w", metav1.NamespaceSystem, leaseName(n.name), err)
	}
	return nil
}
