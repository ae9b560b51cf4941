package garbagecollector

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// absentOwners is how many owners that are gone are remembered, so that their
// many dependents do not each ask for them.
const absentOwners = 500

// identity is where an object is; owner references name the same without the
// resource.
type identity struct {
	resource  schema.GroupVersionResource
	kind      string
	namespace string
	name      string
	uid       types.UID
}

// node is one object that was seen. Nodes are never changed once they are in
// the graph, only replaced.
type node struct {
	identity
	owners             []metav1.OwnerReference
	beingDeleted       bool
	deletingDependents bool // foreground deletion has begun
	orphaning          bool
	// version is the resource version of this state, empty where the resource has none.
	version string
	// policy is what the finalizers ask of a deletion by the collector.
	policy metav1.DeletionPropagation
}

// graph is the objects and who depends on whom. It calls toDelete and toOrphan
// for the objects that need a look, under its lock: they only queue.
type graph struct {
	toDelete func(types.UID)
	toOrphan func(types.UID)
	absent   *lru.Cache // of absentKey

	mu         sync.RWMutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]struct{} // by owner, seen or not
}

type absentKey struct {
	group, kind, namespace, name string
	uid                          types.UID
}

func newGraph(toDelete, toOrphan func(types.UID)) *graph {
	return &graph{
		toDelete: toDelete, toOrphan: toOrphan,
		absent: lru.New(absentOwners),
		nodes:  map[types.UID]*node{}, dependents: map[types.UID]map[types.UID]struct{}{},
	}
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	return gv.Group
}

// names says that the reference of an object in the namespace means the node.
func names(ref metav1.OwnerReference, namespace string, owner *node) bool {
	return ref.UID == owner.uid && ref.Name == owner.name && ref.Kind == owner.kind &&
		groupOf(ref.APIVersion) == owner.resource.Group && (owner.namespace == "" || owner.namespace == namespace)
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func find(refs []metav1.OwnerReference, uid types.UID) *metav1.OwnerReference {
	i := slices.IndexFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == uid })
	if i < 0 {
		return nil
	}
	return &refs[i]
}

// put adds an object or a newer state of it.
func (g *graph) put(n *node) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.nodes[n.uid]
	g.nodes[n.uid] = n
	if old == nil {
		old = &node{}
	}
	for _, was := range old.owners {
		now := find(n.owners, was.UID)
		if now == nil {
			g.unlink(was.UID, n.uid)
		}
		if blocks(was) && (now == nil || !blocks(*now)) {
			g.look(was.UID)
		}
	}
	for _, ref := range n.owners {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]struct{}{}
		}
		g.dependents[ref.UID][n.uid] = struct{}{}
		if was := find(old.owners, ref.UID); was != nil && was.Name == ref.Name && was.Kind == ref.Kind && was.APIVersion == ref.APIVersion {
			continue
		}
		if owner := g.nodes[ref.UID]; owner == nil || owner.deletingDependents || !names(ref, n.namespace, owner) {
			g.toDelete(n.uid)
		}
	}
	if old.uid == "" {
		// Seen now for the first time: dependents that name it wrongly were
		// waiting for this.
		for child := range g.dependents[n.uid] {
			if c := g.nodes[child]; c != nil {
				if ref := find(c.owners, n.uid); ref != nil && !names(*ref, c.namespace, n) {
					g.toDelete(child)
				}
			}
		}
	}
	switch {
	case n.orphaning && !old.orphaning:
		g.toOrphan(n.uid)
	case n.deletingDependents && !old.deletingDependents:
		for child := range g.dependents[n.uid] {
			g.toDelete(child)
		}
		g.toDelete(n.uid)
	}
}

// drop takes an object out. gone says that it was deleted, rather than that
// nothing is known of its kind any more.
func (g *graph) drop(uid types.UID, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.nodes[uid]
	if n == nil {
		return
	}
	delete(g.nodes, uid)
	for _, ref := range n.owners {
		g.unlink(ref.UID, uid)
		if owner := g.nodes[ref.UID]; owner != nil && owner.deletingDependents {
			g.toDelete(ref.UID)
		}
	}
	if children := g.dependents[uid]; len(children) > 0 {
		if gone {
			g.absent.Add(absentKey{n.resource.Group, n.kind, n.namespace, n.name, uid}, nil)
		}
		for child := range children {
			g.toDelete(child)
		}
	}
}

func (g *graph) unlink(owner, child types.UID) {
	delete(g.dependents[owner], child)
	if len(g.dependents[owner]) == 0 {
		delete(g.dependents, owner)
	}
}

func (g *graph) look(uid types.UID) {
	if g.nodes[uid] != nil {
		g.toDelete(uid)
	}
}

func (g *graph) node(uid types.UID) *node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.nodes[uid]
}

// children returns the dependents that were seen.
func (g *graph) children(uid types.UID) []*node {
	g.mu.RLock()
	defer g.mu.RUnlock()
	var list []*node
	for child := range g.dependents[uid] {
		if n := g.nodes[child]; n != nil {
			list = append(list, n)
		}
	}
	return list
}

// settled says that all owners of the object are in the graph as its
// references name them and stay, so that there is nothing to look at: should
// one go, its own event brings the object back.
func (g *graph) settled(n *node) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, ref := range n.owners {
		owner := g.nodes[ref.UID]
		if owner == nil || owner.deletingDependents || !names(ref, n.namespace, owner) {
			return false
		}
	}
	return true
}
