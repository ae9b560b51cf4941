package nodeipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errNone is that of a pool without a free block.
var errNone = errors.New("no free range of pod IPs is left")

// allocator has the pools and what each node has of them. It is safe for concurrent use.
type allocator struct {
	mu      sync.Mutex
	pools   []*pool
	nodes   map[string]holding
	waiting map[string]struct{} // nodes that found no free block
}

// holding is what a node has.
type holding struct {
	uid   types.UID
	cidrs []string
}

func newAllocator(pools []*pool) *allocator {
	return &allocator{pools: pools, nodes: map[string]holding{}, waiting: map[string]struct{}{}}
}

// assign returns the ranges of a node that has none in its spec: those that were chosen for it before, or new ones.
func (a *allocator) assign(node *corev1.Node) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h, has := a.nodes[node.Name]; has && h.uid == node.UID {
		return h.cidrs, nil
	}
	a.drop(node.Name)
	h := holding{uid: node.UID}
	for _, p := range a.pools {
		cidr, ok := p.allocate(node.Name)
		if !ok {
			a.drop(node.Name) // what the other family gave
			a.waiting[node.Name] = struct{}{}
			return nil, fmt.Errorf("node %s: %w in clusterCIDR %s: delete nodes that are not used any more, or enlarge it", node.Name, errNone, p.cluster)
		}
		h.cidrs = append(h.cidrs, cidr.String())
	}
	delete(a.waiting, node.Name)
	a.nodes[node.Name] = h
	return h.cidrs, nil
}

// occupied is what came of a range that a node has in its spec.
type occupied struct {
	outside []string // ranges that are not in the cluster's
	shared  []string // ranges of which another node, or services, have a part
	freed   int      // blocks that the node had and has no more
}

// occupy takes the ranges that a node has in its spec.
func (a *allocator) occupy(node *corev1.Node) (o occupied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h, has := a.nodes[node.Name]; has && h.uid == node.UID && slices.Equal(h.cidrs, node.Spec.PodCIDRs) {
		return o
	}
	o.freed = a.drop(node.Name)
	delete(a.waiting, node.Name)
	for _, text := range node.Spec.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		in := false
		for _, p := range a.pools {
			s, ok := p.span(cidr)
			if err != nil || !ok {
				continue
			}
			in = true
			if _, twice := p.held[node.Name]; twice {
				continue // the API lets a node have one of each family
			}
			if p.hold(node.Name, s) > 0 {
				o.shared = append(o.shared, text)
			}
		}
		if !in {
			o.outside = append(o.outside, text)
		}
	}
	a.nodes[node.Name] = holding{uid: node.UID, cidrs: slices.Clone(node.Spec.PodCIDRs)}
	return o
}

// release takes back what a node that is gone had, and returns how many blocks are free by that.
func (a *allocator) release(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, name)
	return a.drop(name)
}

func (a *allocator) drop(name string) (freed int) {
	delete(a.nodes, name)
	for _, p := range a.pools {
		freed += p.release(name)
	}
	return freed
}

// wake returns up to n nodes that wait.
func (a *allocator) wake(n int) (names []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name := range a.waiting {
		if len(names) >= n {
			break
		}
		names = append(names, name)
		delete(a.waiting, name)
	}
	return names
}
