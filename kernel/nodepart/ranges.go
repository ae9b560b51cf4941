package nodepart

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
)

// How often a node that waits for its range of pod IPs looks for it, at first and later on.
const (
	podRangeLook    = 500 * time.Millisecond
	podRangeLookMax = 5 * time.Second
)

// ranged is the configuration with a range of pod IPs: its own, or the one that the Node object is given. For that it waits
// as long as it takes, since who gives ranges may begin later. It is nil when ctx ended before.
func (p *Part) ranged(ctx context.Context) (*config.Config, error) {
	cfg := p.Settings()
	if cfg.Node.PodCIDR != "" {
		return cfg, nil
	}
	cidr := givenPodRange(ctx, p.deps.Client, cfg, p.Name, func(problem error) {
		p.deps.Step("pod range", "node %s waits for spec.podCIDRs", p.Name)
		p.deps.Logger.Warn("the node waits for a range of pod IPs; enable the controller nodeipam with allocateNodeCIDRs, or set node.podCIDR of a node with a kernel", "node", p.Name, "error", problem)
	})
	if cidr == "" {
		return nil, nil //nolint:nilnil // the end is no error
	}
	with := *p.Settings() // live keys may have changed while it waited
	with.Node.PodCIDR = cidr
	return &with, nil
}

// errRangeTaken is what the error of a range is that another node has too (errors.Is).
var errRangeTaken = errors.New("another node has the range of pod IPs too")

// rangeTakenError says which node has the range.
type rangeTakenError struct{ text string }

func (e rangeTakenError) Error() string        { return e.text }
func (e rangeTakenError) Is(target error) bool { return target == errRangeTaken }

// freeRange is ranged, and waits until no other node has the range: who deletes the other Node needs a kernel that runs.
// It is nil when ctx ended before.
func (p *Part) freeRange(ctx context.Context) (*config.Config, error) {
	said := ""
	for {
		cfg, err := p.ranged(ctx)
		if err != nil || cfg == nil {
			return nil, err
		}
		err = p.compareRanges(ctx, cfg)
		if !errors.Is(err, errRangeTaken) {
			return cfg, err
		}
		if text := err.Error(); text != said {
			said = text
			p.deps.Step("pod range", "%s", text)
			p.deps.Logger.Warn("the node does not start until its range of pod IPs is free; it looks again every few seconds", "node", p.Name, "error", err)
		}
		select {
		case <-time.After(podRangeLookMax):
		case <-ctx.Done():
			return nil, nil //nolint:nilnil // the end is no error
		}
	}
}

// compareRanges is checkPodRange where the node's client may see the others.
func (p *Part) compareRanges(ctx context.Context, cfg *config.Config) error {
	if p.deps.Cluster == nil {
		return nil // who gave the range has compared
	}
	return checkPodRange(ctx, p.deps.Cluster, cfg, p.Name)
}

// givenPodRange are the ranges of pod IPs that the Node object has, one of each IP family at most, for a node whose
// configuration names none. A Node that does not exist is made, with its labels and taints. It waits
// until the Node has a range, which the controller nodeipam gives; it is empty when ctx ended before. waits is called
// with what is missing, and again when that is something else.
func givenPodRange(ctx context.Context, client kubernetes.Interface, cfg *config.Config, name string, waits func(problem error)) string {
	said := ""
	for pause := podRangeLook; ; pause = min(2*pause, podRangeLookMax) {
		cidr, err := lookForPodRange(ctx, client, cfg, name)
		if err == nil {
			return cidr
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			waits(err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ""
		}
	}
}

// lookForPodRange is the range that the Node has now; the error says why it has none that can be used.
func lookForPodRange(ctx context.Context, client kubernetes.Interface, cfg *config.Config, name string) (string, error) {
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = nodes.Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: cfg.Node.Labels}, Spec: corev1.NodeSpec{Taints: registrationTaints(cfg.Node)},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("register node %s, so that it is given a range of pod IPs: %w", name, err)
	}
	if len(node.Spec.PodCIDRs) == 0 {
		return "", fmt.Errorf("node %s: spec.podCIDRs is empty", name)
	}
	return ofServices(cfg, node)
}

// ofServices are the ranges of a Node, those of the first family of services first, with a comma between them. The
// second is of the other family.
func ofServices(cfg *config.Config, node *corev1.Node) (string, error) {
	services, err := dualstack.Ranges(cfg.API.ServiceCIDR)
	if err != nil {
		return "", fmt.Errorf("api.serviceCIDR: %w", err)
	}
	var ranges []netip.Prefix
	for _, text := range node.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil || slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Addr().Is4() == p.Addr().Is4() }) {
			continue
		}
		for _, service := range services {
			if p.Overlaps(service) {
				return "", fmt.Errorf("node %s: its range of pod IPs, %s, overlaps api.serviceCIDR %s; name that in serviceCIDR of who gives ranges, and delete the Node", node.Name, p, service)
			}
		}
		ranges = append(ranges, p)
	}
	for _, service := range services {
		if !slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Addr().Is4() == service.Addr().Is4() }) {
			return "", fmt.Errorf("node %s: none of its ranges of pod IPs, %v, is of the family of api.serviceCIDR %s", node.Name, node.Spec.PodCIDRs, service)
		}
	}
	if ranges[0].Addr().Is4() != services[0].Addr().Is4() {
		slices.Reverse(ranges)
	}
	return dualstack.Join(ranges), nil
}

// checkPodRange refuses a range of pod IPs that another node of the cluster has too, in part or whole: two pods would
// have one address, and services would send traffic to the wrong one.
func checkPodRange(ctx context.Context, client kubernetes.Interface, cfg *config.Config, name string) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("node %s: compare its range of pod IPs with other nodes': %w", name, err)
	}
	ranges, err := dualstack.Ranges(cfg.Node.PodCIDR)
	if err != nil {
		return fmt.Errorf("node %s: node.podCIDR: %w", name, err)
	}
	for _, own := range ranges {
		if err := overlapping(own, name, nodes.Items); err != nil {
			return err
		}
	}
	return nil
}

func overlapping(own netip.Prefix, name string, nodes []corev1.Node) error {
	var self *corev1.Node
	for i := range nodes {
		if nodes[i].Name == name {
			self = &nodes[i]
		}
	}
	for i := range nodes {
		other := &nodes[i]
		// Of two that registered at once the later one gives way, and only that one.
		if other.Name == name || self != nil && before(self, other) {
			continue
		}
		for _, text := range append([]string{other.Spec.PodCIDR}, other.Spec.PodCIDRs...) {
			if cidr, err := netip.ParsePrefix(text); err == nil && cidr.Overlaps(own) {
				return rangeTakenError{fmt.Sprintf("node %s: its range of pod IPs, node.podCIDR %s, overlaps %s of node %s; "+
					"give each node a range of its own, or delete Node %s if that machine is gone", name, own, cidr, other.Name, other.Name)}
			}
		}
	}
	return nil
}

// before orders nodes by their registration.
func before(a, b *corev1.Node) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
