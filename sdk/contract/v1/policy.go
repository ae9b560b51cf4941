package contractv1

import "context"

// Policy is an ordered set of predicates and priorities as the plugin host
// serves it to the scheduler: the plugins behind it may be WASM modules or
// processes and may restart or be swapped. kernel/plugin implements it.
//
// The scheduler calls it from one goroutine, the scheduling cycle. A Policy is
// immutable in its set: a changed set is a new Policy, which the scheduler
// picks up between two cycles. Slices passed in stay the caller's.
type Policy interface {
	// Generation changes when any answer may have changed without a delta
	// (swap, restart, configuration): cached results of another generation
	// are void.
	Generation() uint64
	Predicates() []PredicateInfo
	Priorities() []PriorityInfo
	// Apply brings every plugin's replica up to date. The host encodes the
	// delta once. A plugin that cannot take it is restarted and fed in full
	// from the ReplicaSource, outside the cycle; Apply fails only when ctx ends.
	Apply(ctx context.Context, delta *Delta) error
	// Filter asks predicate i about nodes; out[k] receives 0 for "fits" or an
	// id for Reasons. len(out) == len(nodes).
	Filter(ctx context.Context, i int, class uint32, nodes []uint32, out []uint32) error
	// Reasons returns the words behind a verdict of predicate i.
	Reasons(i int, verdict uint32) []string
	// Score asks priority i for raw scores.
	Score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error
	// Normalize rewrites raw scores in place; only for priorities that
	// declare sdk.NormalizePlugin.
	Normalize(ctx context.Context, i int, class uint32, nodes []uint32, scores []int64) error
}

// Resolver is a Policy that knows which refusals no eviction would undo. Of one
// that is none, every refusal counts as one that might be undone.
type Resolver interface {
	Unresolvable(i int, verdict uint32) bool
}

// Preparing is a Policy that takes a while to be fed. The scheduler turns to it
// when Prepared says so, and decides with the one before until then; Changed of
// its source is signalled.
type Preparing interface {
	// Prepared reports whether each plugin has what Apply gave it, or is out of
	// order. Once true, the policy is in use. It may take a while, as plugins take a new
	// configuration then; who asks is told by its Yielder.
	Prepared(ctx context.Context) bool
}

// Versioned is a Policy that knows which builds its plugins are of. They are the
// same as long as the policy is: every decision is by exactly one of each bundle.
type Versioned interface {
	// Versions are the bundles of the policy, in a slice that never changes.
	Versions() []BundleVersion
}

// BundleVersion is one build of a bundle.
type BundleVersion struct {
	Bundle, Version, Digest string
}

// PolicySource hands out the present policy of a profile. Changed is signalled
// (capacity one, never closed while the host runs) after a swap.
type PolicySource interface {
	Policy() Policy
	Changed() <-chan struct{}
}

// ReplicaSource is implemented by the scheduler: the whole replica as one
// delta with reset set. The plugin host calls it to feed a new or restarted
// plugin, from goroutines of its own (the scheduler registers it at start and
// answers from a copy it keeps current).
type ReplicaSource interface {
	Replica() *Delta
}
