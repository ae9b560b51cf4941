package sdk

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"pintle.dev/pintle/sdk/contract"
)

// ABIVersion is the version of the WASM ABI (ABI.md): of what the exports are
// called with. What they are asked is the contract's.
const ABIVersion = 1

// maxReasons bounds the distinct verdicts that one plugin may have; what comes
// after is folded into the last. Words that name nodes or pods would grow the
// table without end, and events could not count them.
const maxReasons = 4096

// Errors of a Guest. They cross the ABI as the status codes of ABI.md.
var (
	ErrPlugin = errors.New("no such plugin")
	ErrClass  = errors.New("no such class")
	ErrNode   = errors.New("no such node")
	ErrDelta  = errors.New("malformed delta")
	ErrPanic  = errors.New("plugin panicked")
)

// Guest is the loop between a transport and the plugins of a bundle: it keeps
// the replica and answers questions over sets of nodes. One goroutine at a
// time may use it.
type Guest struct {
	epochs  uint32 // of move logs
	cluster Cluster
	plugins []servedState
	request Request
	// asked is the class that was asked about last; nil: look it up.
	asked      *Pod
	askedClass uint32
	nodes      []*Node // of the question at hand
	found      []*Node // scratch
	single     single
	batched    Batch

	clock      clock
	evaluation evaluation
	lists      cycleLists
}

type servedState struct {
	served
	states map[uint32]preparedState
	// latest is one more than the class whose state was asked for last.
	latest      uint64
	latestState preparedState
	// stamped is the state's stamp as of the object epoch stampedAt.
	stamped, stampedAt uint64
	reasons            []Verdict
	ids                map[reasonKey]uint32
	// last is the reason that was interned before: most nodes that do not fit
	// lack the same thing, said by the same constant, and comparing a pointer
	// spares the hash of a string, which is dear in WASM.
	last             string
	lastUnresolvable bool
	lastID           uint32
	until            int64 // see clock; of the last question
}

// reasonKey is what makes a verdict distinct.
type reasonKey struct {
	words        string // a line each
	unresolvable bool
}

// forget voids every prepared state.
func (p *servedState) forget() {
	clear(p.states)
	p.latest, p.latestState = 0, preparedState{}
}

// preparedState is what Prepare returned, good for the generation it is stamped
// with; one that is followed has seen the changes before position.
type preparedState struct {
	stamp    uint64
	position uint64
	value    any
	moves    *moveLog // of plugins that say what moved
}

// NewGuest returns a guest over everything registered in this binary.
func NewGuest() *Guest { return newGuest(registered) }

// GuestOf returns a guest over the given plugins (values of the kinds that
// Register takes), whatever else is registered; it is for tests.
func GuestOf(plugins ...any) (*Guest, error) {
	var list []served
	for _, p := range plugins {
		s, err := newServed(p)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return newGuest(list), nil
}

func newGuest(list []served) *Guest {
	g := &Guest{plugins: make([]servedState, len(list))}
	for i, s := range list {
		g.plugins[i] = newServedState(s)
	}
	for _, s := range list {
		g.cluster.changes.kept = g.cluster.changes.kept || s.follow != nil
	}
	g.cluster.reset()
	g.request.Cluster, g.request.clock = &g.cluster, &g.clock
	return g
}

func newServedState(s served) servedState {
	return servedState{served: s, states: map[uint32]preparedState{}, ids: map[reasonKey]uint32{}}
}

// maxInstances bounds the instances of a guest; a profile has one a plugin.
const maxInstances = 1024

// Instance makes another instance of plugin i and returns its index: from then on
// it is configured and asked as a plugin of its own, by this name. There is none of plugins that were not registered with RegisterNew.
func (g *Guest) Instance(i int, name string) (index int, err error) {
	p, err := g.plugin(i, "")
	if err != nil {
		return 0, err
	}
	defer contain(p.name, &err)
	if p.again == nil {
		return 0, fmt.Errorf("%w: no further instance of %s can be made", ErrPlugin, p.name)
	}
	if len(g.plugins) >= maxInstances {
		return 0, fmt.Errorf("%w: %d plugins and instances are enough", ErrPlugin, maxInstances)
	}
	s, err := p.again()
	if err != nil {
		return 0, err
	}
	s.instance, s.name = true, name
	g.plugins, g.single = append(g.plugins, newServedState(s)), single{}
	return len(g.plugins) - 1, nil
}

// PluginInfo is one entry of a bundle's description.
type PluginInfo struct {
	Name      string
	Kind      string
	Scope     Scope
	Normalize Normalize // priorities only
	MaxScore  int64     // priorities only; 0: MaxScore
	Reads     []string
	// Events are those that can help a pod which the plugin refused; nil: it says
	// nothing about that.
	Events  []Interest
	Pods    Pods // that it has to do with
	ByClass bool // pre-enqueue and queue-sort: one answer does for a class
	Samples bool // post-filter: its trials are samples
	Ranks   bool // post-filter: it ranks candidates
	// Announced is what else there is to say of a kind that another package of
	// the SDK serves; nil of others.
	Announced *Announcement
	// Expires: its answers end with time.
	Expires bool
	// Instances: further ones can be made of it.
	Instances bool
}

// Plugins describes what the guest serves; the index is how the ABI names a
// plugin. Instances stand behind, and are not described.
func (g *Guest) Plugins() []PluginInfo {
	infos := make([]PluginInfo, 0, len(g.plugins))
	for i := range g.plugins {
		p := &g.plugins[i]
		if p.instance {
			break
		}
		infos = append(infos, PluginInfo{
			Name: p.name, Kind: p.kind, Scope: p.scope, Normalize: p.normalize, MaxScore: p.maxScore, Reads: p.readList, Announced: p.announced, Events: p.interests, Pods: p.pods, ByClass: p.byClass, Samples: p.samples, Ranks: p.ranks, Expires: p.expires, Instances: p.again != nil,
		})
	}
	return infos
}

// Index returns the index of a plugin by name, or -1.
func (g *Guest) Index(name string) int {
	for i := range g.plugins {
		if g.plugins[i].name == name {
			return i
		}
	}
	return -1
}

// Contract is the version that the guest speaks with a kernel that speaks oldest
// to newest: the oldest that has the kinds of its plugins.
func (g *Guest) Contract(oldest, newest uint32) uint32 {
	needs := uint32(contract.One)
	for i := range g.plugins {
		needs = max(needs, g.plugins[i].contract)
	}
	return contract.Choose(needs, oldest, newest)
}

// Cluster returns the replica.
func (g *Guest) Cluster() *Cluster { return &g.cluster }

// Configure hands plugin i its configuration as JSON. Prepared states are void afterwards.
func (g *Guest) Configure(i int, config []byte) (err error) {
	p, err := g.plugin(i, "")
	if err != nil {
		return err
	}
	defer contain(p.name, &err)
	p.forget()
	g.single = single{}
	if p.configure == nil {
		if len(config) == 0 {
			return nil
		}
		return fmt.Errorf("%s takes no configuration", p.name)
	}
	if err := p.configure(config); err != nil {
		return fmt.Errorf("configure %s: %w", p.name, err)
	}
	return nil
}

// Apply decodes a Delta and applies it to the replica. After an error the
// replica is in no defined state: the host feeds it again with reset set.
func (g *Guest) Apply(delta []byte) error {
	g.single.at = 0
	if err := g.cluster.apply(delta); err != nil {
		g.asked = nil
		return err
	}
	if g.cluster.void || len(g.cluster.gone) > 0 {
		g.asked = nil
	}
	g.cluster.boundColumns()
	if g.cluster.void {
		for i := range g.plugins {
			g.plugins[i].forget()
		}
		g.cluster.void, g.cluster.gone = false, g.cluster.gone[:0]
	}
	if len(g.cluster.gone) > 0 {
		for i := range g.plugins {
			for _, class := range g.cluster.gone {
				delete(g.plugins[i].states, class)
			}
			g.plugins[i].latest = 0
		}
		g.cluster.gone = g.cluster.gone[:0]
	}
	return nil
}

// Filter asks predicate i about each node; out[k] becomes 0 where the pod fits
// and an id for Reasons where not.
func (g *Guest) Filter(i int, class uint32, nodes, out []uint32) (err error) {
	p, err := g.plugin(i, KindPredicate)
	if err != nil {
		return err
	}
	defer contain(p.name, &err)
	if err = g.filter(p, class, nodes, out); err == nil {
		g.stands(p, i, class)
		p.until = g.clock.until
	}
	return err
}

func (g *Guest) filter(p *servedState, class uint32, nodes, out []uint32) error {
	if err := g.ask(p, class); err != nil {
		return err
	}
	if p.idles(&g.request) {
		clear(out)
		return g.there(nodes)
	}
	if p.filterNodes != nil && len(nodes) > fewNodes {
		b, err := g.batch(p, nodes)
		if err != nil {
			return err
		}
		clear(out)
		b.verdicts = out
		p.filterNodes(b)
		return nil
	}
	r := &g.request
	for k, index := range nodes {
		n := g.cluster.Node(index)
		if n == nil {
			return fmt.Errorf("%w: index %d", ErrNode, index)
		}
		r.about(n)
		verdict := p.filter(r)
		if len(verdict.Reasons) == 0 {
			out[k] = 0
			continue
		}
		out[k] = p.reasonID(verdict)
	}
	return nil
}

// Score asks priority i for the raw score of each node.
func (g *Guest) Score(i int, class uint32, nodes []uint32, out []int64) (err error) {
	p, err := g.plugin(i, KindPriority)
	if err != nil {
		return err
	}
	defer contain(p.name, &err)
	if err = g.score(p, class, nodes, out); err == nil {
		g.stands(p, i, class)
		p.until = g.clock.until
	}
	return err
}

func (g *Guest) score(p *servedState, class uint32, nodes []uint32, out []int64) error {
	if err := g.ask(p, class); err != nil {
		return err
	}
	if p.idles(&g.request) {
		clear(out)
		return g.there(nodes)
	}
	if p.scoreNodes != nil && len(nodes) > fewNodes {
		b, err := g.batch(p, nodes)
		if err != nil {
			return err
		}
		clear(out)
		b.scores = out
		p.scoreNodes(b)
		return nil
	}
	r := &g.request
	for k, index := range nodes {
		n := g.cluster.Node(index)
		if n == nil {
			return fmt.Errorf("%w: index %d", ErrNode, index)
		}
		r.about(n)
		out[k] = p.score(r)
	}
	return nil
}

// Normalize rewrites raw scores of priority i in place; only for priorities
// that declare NormalizePlugin.
func (g *Guest) Normalize(i int, class uint32, nodes []uint32, scores []int64) (err error) {
	p, err := g.plugin(i, KindPriority)
	if err != nil {
		return err
	}
	if p.normFunc == nil {
		return fmt.Errorf("%w: %s does not normalize", ErrPlugin, p.name)
	}
	defer contain(p.name, &err)
	if err := g.ask(p, class); err != nil {
		return err
	}
	if err := g.find(nodes); err != nil {
		return err
	}
	p.normFunc(&g.cluster, g.request.Pod, g.request.State, g.nodes, scores)
	return nil
}

// Reasons returns the words behind a verdict of predicate i, or nil.
func (g *Guest) Reasons(i int, verdict uint32) []string { return g.verdict(i, verdict).Reasons }

// Unresolvable reports whether a verdict of predicate i says that no eviction
// would help.
func (g *Guest) Unresolvable(i int, verdict uint32) bool { return g.verdict(i, verdict).Unresolvable }

func (g *Guest) verdict(i int, verdict uint32) Verdict {
	if i < 0 || i >= len(g.plugins) || verdict == 0 || int(verdict) > len(g.plugins[i].reasons) {
		return Verdict{}
	}
	return g.plugins[i].reasons[verdict-1]
}

func (g *Guest) plugin(i int, kind string) (*servedState, error) {
	if i < 0 || i >= len(g.plugins) || (kind != "" && g.plugins[i].kind != kind) {
		return nil, fmt.Errorf("%w: %s %d", ErrPlugin, kind, i)
	}
	return &g.plugins[i], nil
}

// askAbout finds a class.
func (g *Guest) askAbout(class uint32) error {
	if g.asked != nil && g.askedClass == class {
		return nil
	}
	if g.asked, g.askedClass = g.cluster.classes[class], class; g.asked == nil {
		return fmt.Errorf("%w: %d", ErrClass, class)
	}
	return nil
}

// ask sets the request up for a class: its pod and the plugin's prepared state.
func (g *Guest) ask(p *servedState, class uint32) error {
	g.single.at = 0
	if err := g.askAbout(class); err != nil {
		return err
	}
	g.clock.begin(p)
	pod := g.asked
	if g.request.Pod != pod { // a write of what is there already is not for nothing, see single
		g.request.Pod = pod
	}
	if g.request.State != nil {
		g.request.State = nil
	}
	if p.prepare == nil {
		return nil
	}
	stamp := g.cluster.stamp(p)
	if p.latest == uint64(class)+1 && p.latestState.stamp == stamp && p.follow == nil {
		g.request.State = p.latestState.value
		return nil
	}
	state, ok := p.states[class]
	if ok && state.stamp == stamp && p.follow != nil && state.position != g.cluster.changes.end() {
		// Not kept should it panic: it may be half done.
		delete(p.states, class)
		ok = false
		if changes, known := g.cluster.changes.since(state.position); known {
			if state.value = p.follow(&g.cluster, pod, state.value, changes); state.value != nil {
				state.position = g.cluster.changes.end()
				if p.moved != nil {
					nodes, all := p.moved(state.value)
					state.moves.take(g, nodes, all)
				}
				p.states[class] = state
				ok = true
			}
		}
	}
	if !ok || state.stamp != stamp {
		state = preparedState{stamp: stamp, position: g.cluster.changes.end(), value: p.prepare(&g.cluster, pod)}
		if p.moved != nil {
			state.moves = &moveLog{}
			state.moves.begin(g)
		}
		p.states[class] = state
	}
	p.latest, p.latestState = uint64(class)+1, state
	g.request.State = state.value
	return nil
}

// reasonID interns a verdict; ids start at 1.
func (p *servedState) reasonID(v Verdict) uint32 {
	reasons := v.Reasons
	key := reasons[0]
	if len(reasons) > 1 {
		key = strings.Join(reasons, "\n")
	} else if p.lastID != 0 && v.Unresolvable == p.lastUnresolvable && len(key) == len(p.last) && unsafe.StringData(key) == unsafe.StringData(p.last) {
		return p.lastID
	}
	if id, ok := p.ids[reasonKey{key, v.Unresolvable}]; ok {
		if len(reasons) == 1 {
			p.last, p.lastUnresolvable, p.lastID = key, v.Unresolvable, id
		}
		return id
	}
	switch {
	case len(p.reasons) >= maxReasons:
		return maxReasons
	case len(p.reasons) == maxReasons-1:
		p.reasons = append(p.reasons, Verdict{Reasons: []string{"node(s) did not satisfy " + p.name}})
	default:
		words := make([]string, len(reasons))
		for i, r := range reasons {
			// A line feed separates reasons on the ABI.
			words[i] = strings.ReplaceAll(strings.Clone(r), "\n", " ")
		}
		p.reasons = append(p.reasons, Verdict{words, v.Unresolvable})
		p.ids[reasonKey{strings.Clone(key), v.Unresolvable}] = uint32(len(p.reasons))
	}
	return uint32(len(p.reasons))
}

// contain turns a plugin's panic into an error: one bad plugin of a bundle
// must not take the others down.
func contain(name string, err *error) {
	if r := recover(); r != nil {
		*err = containment(name, r)
	}
}

// containment is the error that a panic becomes.
func containment(name string, panicked any) error {
	return fmt.Errorf("%w: %s: %v%s", ErrPanic, name, panicked, whence())
}

// whence says where it panicked: the first frame below the runtime's own.
func whence() string {
	var pcs [32]uintptr
	// Without itself, containment, who recovered and runtime.Callers.
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !strings.HasPrefix(frame.Function, "runtime.") {
			file := frame.File[strings.LastIndexByte(frame.File, '/')+1:]
			return " (" + file + ":" + strconv.Itoa(frame.Line) + ")"
		}
		if !more {
			return ""
		}
	}
}
