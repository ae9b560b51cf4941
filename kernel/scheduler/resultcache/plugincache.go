package resultcache

import (
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// pluginCache is what a class keeps about one plugin beside its answers: what they
// depend on, and whether they still hold.
type pluginCache struct {
	scope string   // of the plugin for pods of the class: one of sdk.Scope
	kinds []string // of the cluster objects that the plugin reads

	reads uint64 // sum of the versions of these kinds at the last update
	stale bool   // the plugin failed and was ignored, or an answer ended: ask about all nodes
	until expiry // when the first answer ends

	skip    skip
	changed changedNodes
}

// looksAtPods reports whether pods on a node are part of the plugin's answer about it.
func (p *pluginCache) looksAtPods() bool { return p.scope != string(sdk.ScopeNodeObject) }

// looksBeyond reports whether other nodes are part of the plugin's answer about one.
func (p *pluginCache) looksBeyond() bool { return p.scope == string(sdk.ScopeCluster) }

// fresh reports whether the plugin's answers depend on no object that changed since
// the last update.
func (p *pluginCache) fresh(u *update) bool {
	return u.known && !p.stale && p.reads == p.version(u)
}

// version is that of the kinds which the plugin reads.
func (p *pluginCache) version(u *update) uint64 {
	if u.known && u.objects == u.view.ObjectVersion {
		return p.reads
	}
	return u.view.Version(p.kinds)
}

// predicateCache holds one predicate's answers for a class.
type predicateCache struct {
	*contractv1.PredicateInfo
	pluginCache

	verdicts []uint32 // by node index; unknown: to be asked for. Nil while the plugin skips the class
}

func newPredicateCaches(infos []contractv1.PredicateInfo) []predicateCache {
	caches := make([]predicateCache, len(infos))
	for i := range infos {
		caches[i].PredicateInfo = &infos[i]
		caches[i].scope, caches[i].kinds = infos[i].Scope, infos[i].Reads
	}
	return caches
}

func (p *predicateCache) resize(nodes int) {
	if p.skip.now {
		p.verdicts = nil
		return
	}
	p.verdicts = grow(p.verdicts, nodes, unknown)
}

// priorityCache holds one priority's answers for a class.
type priorityCache struct {
	*contractv1.PriorityInfo
	pluginCache

	raw   []int64 // by node index, where have is true. Both nil while the plugin skips the class
	have  []bool
	void  bool // in this decision: all raw scores are to be asked for
	moved bool // raw scores changed since they were normalised

	// What raw scores are normalised by, over the nodes that fit.
	least, largest int64   // raw scores, where the host normalises
	unmeasured     bool    // least or largest may be others
	norm           []int64 // parallel to class.fit; where the plugin normalises
	zero           bool    // normalised scores are all 0, without a question
}

func newPriorityCaches(infos []contractv1.PriorityInfo) []priorityCache {
	caches := make([]priorityCache, len(infos))
	for i := range infos {
		caches[i].PriorityInfo = &infos[i]
		caches[i].scope, caches[i].kinds = infos[i].Scope, infos[i].Reads
	}
	return caches
}

func (p *priorityCache) resize(nodes int) {
	if p.skip.now {
		return
	}
	p.raw = grow(p.raw, nodes, 0)
	p.have = grow(p.have, nodes, false)
}

// rawOf is the raw score of a node.
func (p *priorityCache) rawOf(n uint32) int64 {
	if p.skip.now {
		return 0
	}
	return p.raw[n]
}

// take keeps the raw score of a node; it reports whether that is another than before.
func (p *priorityCache) take(n uint32, score int64) (other bool) {
	before := p.raw[n]
	p.raw[n], p.have[n] = score, true
	if before == score {
		return false
	}
	p.moved = true
	p.unmeasured = p.unmeasured || score > p.largest || before >= p.largest ||
		p.Normalize == string(sdk.NormalizeMinMax) && (score < p.least || before <= p.least)
	return true
}
