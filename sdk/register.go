package sdk

import (
	"fmt"
	"slices"

	"pintle.dev/pintle/sdk/contract"
)

// registered holds what Register was given, in order. It is written from init
// functions only, which the runtime runs one after the other.
var registered []served

// served is one plugin of this bundle.
type served struct {
	name        string
	kind        string
	scope       Scope
	pods        Pods
	normalize   Normalize
	maxScore    int64  // 0: MaxScore
	contract    uint32 // the oldest that has what the plugin needs
	reads       map[string]bool
	readList    []string
	configure   func([]byte) error
	prepare     func(*Cluster, *Pod) any
	follow      func(*Cluster, *Pod, any, []Change) any
	moved       func(any) ([]uint32, bool)
	idle        func(*Pod, any) bool
	indifferent func(*Pod, any) bool
	aloof       func(*Pod) bool
	filter      func(*Request) Verdict
	score       func(*Request) int64
	filterNodes func(*Batch)
	scoreNodes  func(*Batch)
	normFunc    func(*Cluster, *Pod, any, []*Node, []int64)
	at          map[point]step // kinds that are neither predicate nor priority
	announced   *Announcement  // kinds that another package of the SDK serves
	interests   []Interest     // nil: the plugin says nothing of events
	byClass     bool           // answers depend on the pod's class alone
	samples     bool           // post-filter: its trials are samples
	ranks       bool           // post-filter: it ranks candidates
	expires     bool           // answers end with time
	// again makes the plugin anew, with a state of its own; nil: nobody can.
	again func() (served, error)
	// instance: it was made by again, for a profile with a configuration of its own.
	instance bool
}

// Plugin is every kind that Register takes.
type Plugin interface {
	Predicate | Priority | PreEnqueue | QueueSort | PreFilter | PostFilter | PreScore | Reserve | Permit | PreBind | Bind | PostBind
}

// Register adds a plugin to this bundle. Call it from init;
// what cannot be served (no name, no function, a name twice) is a mistake of
// the author and panics, so that the build's first test shows it.
func Register[P Plugin](plugin P) {
	s, err := newServed(plugin)
	if err != nil {
		panic("sdk.Register: " + err.Error())
	}
	register(s)
}

// RegisterNew adds a plugin of which there may be several instances: one for each
// profile that configures it apart, each with what make returned for it. They
// share the replica, so that an instance costs no more than its own state. make
// must return a value that shares nothing changeable with those before.
func RegisterNew[P Plugin](make func() P) {
	again := func() (served, error) { return newServed(make()) }
	s, err := again()
	if err != nil {
		panic("sdk.RegisterNew: " + err.Error())
	}
	s.again = again
	register(s)
}

func register(s served) {
	for _, other := range registered {
		if other.name == s.name {
			panic("sdk.Register: " + s.name + " is registered twice")
		}
	}
	registered = append(registered, s)
}

func newServed(plugin any) (served, error) {
	var s served
	switch p := plugin.(type) {
	case Predicate:
		s = served{
			name: p.Name, kind: KindPredicate, scope: p.Scope, pods: p.Pods, readList: p.Reads, contract: p.Contract,
			configure: p.Configure, prepare: p.Prepare, follow: p.Follow, moved: p.Moved, idle: p.Idle, indifferent: p.Indifferent, aloof: p.Aloof, filter: p.Filter, filterNodes: p.FilterNodes, interests: p.Events, expires: p.Expires,
		}
		if p.Filter == nil && p.FilterNodes == nil {
			return s, fmt.Errorf("predicate %s has no Filter", p.Name)
		}
		if p.Filter == nil {
			s.filter = filterOf(p.FilterNodes)
		}
	case Priority:
		s = served{
			name: p.Name, kind: KindPriority, scope: p.Scope, pods: p.Pods, readList: p.Reads, normalize: p.Normalize, maxScore: p.MaxScore, contract: p.Contract,
			configure: p.Configure, prepare: p.Prepare, follow: p.Follow, moved: p.Moved, idle: p.Idle, indifferent: p.Indifferent, aloof: p.Aloof, score: p.Score, scoreNodes: p.ScoreNodes, normFunc: p.NormalizeFunc, expires: p.Expires,
		}
		if p.Score == nil && p.ScoreNodes == nil {
			return s, fmt.Errorf("priority %s has no Score", p.Name)
		}
		if p.Score == nil {
			s.score = scoreOf(p.ScoreNodes)
		}
		if s.normalize == "" {
			s.normalize = NormalizeNone
		}
		if s.maxScore < 0 || s.maxScore > MaxFrameworkScore {
			return s, fmt.Errorf("priority %s: MaxScore is %d; use 1 to %d", p.Name, p.MaxScore, MaxFrameworkScore)
		}
		if s.maxScore != 0 || s.normalize == NormalizeReverse || s.normalize == NormalizeMinMax || s.normalize == NormalizePluginNonzero {
			s.contract = max(s.contract, contract.Three)
		}
		if (s.normalize == NormalizePlugin || s.normalize == NormalizePluginNonzero) != (p.NormalizeFunc != nil) {
			return s, fmt.Errorf("priority %s: NormalizeFunc goes with NormalizePlugin, and only with it", p.Name)
		}
	default:
		var at map[point]step
		var ok bool
		if s, at, ok = steps(plugin); !ok {
			return s, fmt.Errorf("%T is no kind of plugin", plugin)
		}
		if s.at = at; at == nil {
			return s, fmt.Errorf("%s %s has no function", s.kind, s.name)
		}
	}
	s.contract = max(s.contract, contract.Of(s.kind))
	if s.expires {
		s.contract = max(s.contract, contract.Four)
	}
	if s.scope == "" && s.scoped() {
		s.scope = ScopeNode
	}
	if s.kind == KindReserve && s.scope != "" && s.scope != ScopeNodeObject {
		return s, fmt.Errorf("reserve %s: Scope is %q; use ScopeNodeObject or leave it out", s.name, s.scope)
	}
	if s.follow != nil && (s.prepare == nil || s.scope != ScopeCluster) {
		return s, fmt.Errorf("%s: Follow goes with Prepare and ScopeCluster", s.name)
	}
	if err := s.hinted(); err != nil {
		return s, err
	}
	if s.moved != nil && s.follow == nil {
		return s, fmt.Errorf("%s: Moved goes with Follow", s.name)
	}
	if !plainName(s.name) {
		return s, fmt.Errorf("name %q: use 1 to 63 letters, digits, '-', '_' and '.'", s.name)
	}
	s.reads = make(map[string]bool, len(s.readList))
	for _, kind := range s.readList {
		if !plainName(kind) {
			return s, fmt.Errorf("%s reads %q: name a kind, such as Service", s.name, kind)
		}
		s.reads[kind] = true
	}
	return s, nil
}

// scoped reports whether answers of the kind are kept as long as a scope says.
func (s *served) scoped() bool {
	switch s.kind {
	case KindPredicate, KindPriority, KindPreEnqueue, KindPreFilter:
		return true
	}
	return false
}

// plainName reports whether a name needs no escaping in a description.
func plainName(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
		default:
			return false
		}
	}
	return true
}

// The kinds of plugins, as manifests and descriptions name them.
const (
	KindPredicate  = "predicate"
	KindPriority   = "priority"
	KindPreEnqueue = "pre-enqueue"
	KindQueueSort  = "queue-sort"
	KindPreFilter  = "pre-filter"
	KindPostFilter = "post-filter"
	KindPreScore   = "pre-score"
	KindReserve    = "reserve"
	KindPermit     = "permit"
	KindPreBind    = "pre-bind"
	KindBind       = "bind"
	KindPostBind   = "post-bind"
	KindController = "controller"
	KindAdmission  = "admission"
	KindRuntime    = "runtime"
	KindProxy      = "proxy"
	KindNetwork    = "network"
	KindAPIServer  = "apiserver"
	KindCloud      = "cloud"
)

// CycleKinds are the kinds that are asked once a pod or once a class, in the
// order of the scheduling cycle. Predicates stand behind pre-filter, priorities
// behind pre-score.
func CycleKinds() []string {
	return []string{
		KindPreEnqueue, KindQueueSort, KindPreFilter, KindPostFilter, KindPreScore,
		KindReserve, KindPermit, KindPreBind, KindBind, KindPostBind,
	}
}

// ControllingKind reports whether plugins of a kind are run as controllers are: in the
// one kernel of a cluster that leads, with an identity of their own, reading with that of
// their bundle.
func ControllingKind(kind string) bool { return kind == KindController || kind == KindCloud }

// SchedulingKind reports whether plugins of a kind take part in scheduling; those
// may be WASM modules.
func SchedulingKind(kind string) bool {
	return kind == KindPredicate || kind == KindPriority || slices.Contains(CycleKinds(), kind)
}
