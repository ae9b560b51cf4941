package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Open opens a fresh instance of what is checked.
type Open func(ctx context.Context) (artifact.Artifact, error)

// Options of a check.
type Options struct {
	// Seeds is how many random clusters are asked about, from seed Seed on; 0 is 20.
	Seeds int
	Seed  uint64
	// Nodes a cluster; 0 is 12.
	Nodes int
	Words Vocabulary
	// Want are the plugins that the manifest names; nil compares nothing.
	Want []*contractv1.PluginDescription
	// Configs are configurations that each plugin takes, by its name: a plugin
	// that needs one is asked with it.
	Configs map[string][]byte
}

func (o Options) withDefaults() Options {
	if o.Seeds <= 0 {
		o.Seeds = 20
	}
	if o.Nodes <= 0 {
		o.Nodes = 12
	}
	return o
}

// Result is the outcome of one check.
type Result struct {
	Check string `json:"check"`
	// Fault says what is wrong; empty is passed.
	Fault string `json:"fault,omitempty"`
	// Skipped says why the check does not apply.
	Skipped string `json:"skipped,omitempty"`
	// Hung: the fault is a call that had no answer in its time.
	Hung bool `json:"hung,omitempty"`
}

// Faults are the results that failed.
func Faults(results []Result) []Result {
	return slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Fault == "" })
}

// errSkip marks a check that does not apply.
type errSkip struct{ why string }

func (e errSkip) Error() string { return e.why }

// check is one part of the suite; each has a fresh instance.
type check struct {
	name string
	run  func(ctx context.Context, s *suite, a artifact.Artifact) error
}

// suite is what the checks of one bundle share.
type suite struct {
	Options
	open    Open
	plugins []*contractv1.PluginDescription
}

// Check runs the suite. An error means that nothing could be asked.
func Check(ctx context.Context, open Open, o Options) ([]Result, error) {
	s := &suite{Options: o.withDefaults(), open: open}
	a, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s.plugins = a.Plugins()
	closed := a.Close(ctx)
	checks := []check{{"describe", describe}}
	if s.asked() {
		checks = append(checks, scheduling...)
	}
	if _, ok := a.(artifact.Idler); ok && s.asked() {
		checks = append(checks, check{"nothing to say about a class", idle})
	}
	if _, ok := a.(artifact.Evaluator); ok && s.asked() {
		checks = append(checks, check{"all of a decision in one call", evaluate})
	}
	if _, ok := a.(artifact.Allocator); ok {
		checks = append(checks, check{"buffers are given back", buffers})
	}
	if s.hasPoints() {
		checks = append(checks, check{"points of the cycle", points})
	}
	if s.has(sdk.KindAdmission) {
		checks = append(checks, check{"reviews", reviews})
	}
	if _, ok := a.(artifact.Reconciler); ok && s.has(sdk.KindController) {
		checks = append(checks, check{"reconciliations", reconciliations})
	}
	if _, ok := a.(*artifact.Process); ok {
		checks = append(checks, processes...)
	}
	var results []Result
	hung := ""
	for _, c := range checks {
		if hung != "" {
			// Each further one would most likely take as long.
			results = append(results, Result{Check: c.name, Skipped: hung + " had no answer"})
			continue
		}
		r := s.one(ctx, c)
		results = append(results, r)
		if r.Hung {
			hung = fmt.Sprintf("%q", c.name)
		}
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
	}
	end := Result{Check: "stop"}
	if closed != nil {
		end.Fault = closed.Error()
	}
	return append(results, end), nil
}

// asked reports whether there is a predicate or a priority.
func (s *suite) asked() bool {
	return slices.ContainsFunc(s.plugins, func(p *contractv1.PluginDescription) bool { return answers(p.GetKind()) })
}

// has reports whether there is a plugin of a kind.
func (s *suite) has(kind string) bool {
	return slices.ContainsFunc(s.plugins, func(p *contractv1.PluginDescription) bool { return p.GetKind() == kind })
}

func answers(kind string) bool { return kind == sdk.KindPredicate || kind == sdk.KindPriority }

func (s *suite) one(ctx context.Context, c check) Result {
	r := Result{Check: c.name}
	a, err := s.open(ctx)
	if err == nil {
		err = s.configure(ctx, a)
		if err == nil {
			err = c.run(ctx, s, a)
		}
		if failed := a.Close(ctx); failed != nil && err == nil {
			err = failed
		}
	}
	var skip errSkip
	switch {
	case errors.As(err, &skip):
		r.Skipped = skip.why
	case err != nil:
		r.Fault, r.Hung = err.Error(), errors.Is(err, artifact.ErrNoAnswer)
	}
	return r
}

// configure hands out the configurations that were given.
func (s *suite) configure(ctx context.Context, a artifact.Artifact) error {
	for i, p := range a.Plugins() {
		if config, ok := s.Configs[p.GetName()]; ok {
			if err := a.Configure(ctx, i, config); err != nil {
				return fmt.Errorf("configuration of %s: %w", p.GetName(), err)
			}
		}
	}
	return nil
}

var scheduling = []check{
	{"configure", badConfiguration},
	{"no such plugin, class or node", outOfRange},
	{"no nodes", noNodes},
	{"malformed delta", malformed},
	{"unknown fields", unknownFields},
	{"what was removed is gone", removed},
	{"same answer twice, in any order, one by one", pure},
	{"deltas and a fresh replica agree", replica},
	{"scores in range", ranges},
	{"the clock", timeless},
	{"memory stays", memory},
	{"large replica in parts", parts},
}

// scopes are those of what answers about nodes.
var scopes = []sdk.Scope{sdk.ScopeNodeObject, sdk.ScopeNode, sdk.ScopeCluster}

// normalizations are those of the contract.
var normalizations = []sdk.Normalize{sdk.NormalizeNone, sdk.NormalizeMax, sdk.NormalizeReverseMax, sdk.NormalizeReverse,
	sdk.NormalizeMinMax, sdk.NormalizePlugin, sdk.NormalizePluginNonzero}

// rewrites reports whether the plugin normalizes its scores itself.
func rewrites(p *contractv1.PluginDescription) bool {
	return p.GetNormalize() == string(sdk.NormalizePlugin) || p.GetNormalize() == string(sdk.NormalizePluginNonzero)
}

func describe(_ context.Context, s *suite, a artifact.Artifact) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(s.plugins) == 0 {
		return errors.New("the description names no plugin")
	}
	again := a.Plugins()
	if !slices.EqualFunc(s.plugins, again, func(x, y *contractv1.PluginDescription) bool { return proto.Equal(x, y) }) {
		fault("two instances describe themselves differently")
	}
	seen := map[string]bool{}
	for _, p := range s.plugins {
		name := p.GetName()
		if name == "" || len(name) > 63 {
			fault("name %q: want 1 to 63 letters, digits, '-', '_' and '.'", name)
		}
		if seen[name] {
			fault("%s is described twice", name)
		}
		seen[name] = true
		if answers(p.GetKind()) && !slices.Contains(scopes, sdk.Scope(p.GetScope())) {
			fault("%s: scope %q, want one of %q", name, p.GetScope(), scopes)
		}
		if p.GetKind() == sdk.KindPriority && !slices.Contains(normalizations, sdk.Normalize(p.GetNormalize())) {
			fault("%s: normalize %q, want one of %q", name, p.GetNormalize(), normalizations)
		}
		if p.GetExpires() && !answers(p.GetKind()) {
			fault("%s: expires is for predicates and priorities", name)
		}
		if most := p.GetMaxScore(); most < 0 || most > sdk.MaxFrameworkScore {
			fault("%s: maxScore %d, want 1 to %d", name, most, sdk.MaxFrameworkScore)
		}
	}
	for _, want := range s.Want {
		i := slices.IndexFunc(s.plugins, func(p *contractv1.PluginDescription) bool { return p.GetName() == want.GetName() })
		switch {
		case i < 0:
			fault("the manifest names %s, which the build does not describe", want.GetName())
		case s.plugins[i].GetKind() != want.GetKind():
			fault("%s is a %s in the manifest and a %s in the build", want.GetName(), want.GetKind(), s.plugins[i].GetKind())
		case want.GetScope() != "" && want.GetScope() != s.plugins[i].GetScope():
			fault("%s has scope %s in the manifest and %s in the build", want.GetName(), want.GetScope(), s.plugins[i].GetScope())
		case want.GetNormalize() != "" && want.GetNormalize() != s.plugins[i].GetNormalize():
			fault("%s has normalize %s in the manifest and %s in the build", want.GetName(), want.GetNormalize(), s.plugins[i].GetNormalize())
		}
	}
	return errors.Join(faults...)
}

// badConfiguration: no configuration is taken, and nonsense is refused without
// taking the bundle down.
func badConfiguration(ctx context.Context, s *suite, a artifact.Artifact) error {
	w := s.world(0)
	for i, p := range s.plugins {
		if _, ok := s.Configs[p.GetName()]; !ok {
			if err := a.Configure(ctx, i, nil); err != nil {
				return fmt.Errorf("%s does not take an empty configuration: %w", p.GetName(), err)
			}
		}
		for _, bad := range []string{"{", "not JSON", "[1,", "\x00\xff"} {
			switch err := a.Configure(ctx, i, []byte(bad)); {
			case err == nil:
				return fmt.Errorf("%s takes %q for a configuration; refuse what is no JSON", p.GetName(), bad)
			case !errors.Is(err, artifact.ErrRefused):
				return fmt.Errorf("%s given %q for a configuration: %w", p.GetName(), bad, err)
			}
		}
	}
	if err := refusal(a.Configure(ctx, len(s.plugins), nil), artifact.StatusPlugin, "a configuration for a plugin that is not there"); err != nil {
		return err
	}
	// It goes on with the configuration that it had.
	if err := s.configure(ctx, a); err != nil {
		return err
	}
	if err := a.Apply(ctx, w.Whole()); err != nil {
		return err
	}
	_, err := s.all(ctx, a, w.Nodes())
	return err
}

// refusal requires a refusal, and of a module the status that ABI.md gives.
func refusal(err error, status int32, what string) error {
	var coded *artifact.StatusError
	switch {
	case err == nil:
		return fmt.Errorf("%s is answered as if it were there", what)
	case !errors.Is(err, artifact.ErrRefused):
		return fmt.Errorf("%s: %w", what, err)
	case errors.As(err, &coded) && coded.Status != status:
		return fmt.Errorf("%s: status %d, want %d", what, coded.Status, status)
	case errors.As(err, &coded) && coded.Text == "":
		return fmt.Errorf("%s: status %d without words; pintle_error says why", what, coded.Status)
	}
	return nil
}

func outOfRange(ctx context.Context, s *suite, a artifact.Artifact) error {
	w := s.world(0)
	if err := a.Apply(ctx, w.Whole()); err != nil {
		return err
	}
	nodes := w.Nodes()
	_, err := a.Filter(ctx, len(s.plugins), Class, nodes)
	if err := refusal(err, artifact.StatusPlugin, "a predicate that is not there"); err != nil {
		return err
	}
	_, err = a.Score(ctx, len(s.plugins)+1000, Class, nodes)
	if err := refusal(err, artifact.StatusPlugin, "a priority that is not there"); err != nil {
		return err
	}
	for i, p := range s.plugins {
		if !answers(p.GetKind()) {
			continue
		}
		ask := func(class uint32, nodes []uint32) error {
			if p.GetKind() == sdk.KindPredicate {
				_, err := a.Filter(ctx, i, class, nodes)
				return err
			}
			_, err := a.Score(ctx, i, class, nodes)
			return err
		}
		if p.GetKind() == sdk.KindPredicate {
			_, err = a.Score(ctx, i, Class, nodes)
		} else {
			_, err = a.Filter(ctx, i, Class, nodes)
		}
		if err := refusal(err, artifact.StatusPlugin, p.GetName()+" asked as another kind"); err != nil {
			return err
		}
		if err := refusal(ask(Class+41, nodes), artifact.StatusClass, p.GetName()+" about a class that is not there"); err != nil {
			return err
		}
		for _, node := range []uint32{w.Absent(), 1 << 20, 1<<32 - 1} {
			if err := refusal(ask(Class, append(slices.Clone(nodes), node)), artifact.StatusNode, fmt.Sprintf("%s about node %d, which is not there", p.GetName(), node)); err != nil {
				return err
			}
		}
	}
	_, err = s.all(ctx, a, nodes)
	return err
}

func noNodes(ctx context.Context, s *suite, a artifact.Artifact) error {
	if err := a.Apply(ctx, s.world(0).Whole()); err != nil {
		return err
	}
	_, err := s.all(ctx, a, nil)
	return err
}

// malformed deltas are refused, and a whole replica makes good again.
func malformed(ctx context.Context, s *suite, a artifact.Artifact) error {
	w := s.world(0)
	whole, err := proto.Marshal(w.Whole())
	if err != nil {
		return err
	}
	if err := a.ApplyEncoded(ctx, whole); err != nil {
		return err
	}
	want, err := s.all(ctx, a, w.Nodes())
	if err != nil {
		return err
	}
	tooFar := &contractv1.Delta{Generation: 9, Operations: []*contractv1.Operation{podAdd(1<<19, &contractv1.Pod{Uid: "x"})}}
	far, err := proto.Marshal(tooFar)
	if err != nil {
		return err
	}
	bad := map[string][]byte{
		"a delta that is cut off":           whole[:len(whole)-3],
		"a varint without end":              {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"a length beyond the delta":         {0x1a, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"a pod on a node that is not there": far,
	}
	// A process is handed decoded deltas; only a module sees these bytes.
	if _, process := a.(*artifact.Process); process {
		bad = map[string][]byte{"a pod on a node that is not there": far}
	}
	for what, data := range bad {
		if err := refusal(a.ApplyEncoded(ctx, data), artifact.StatusMalformed, what); err != nil {
			return err
		}
		if err := a.ApplyEncoded(ctx, whole); err != nil {
			return fmt.Errorf("a whole replica after %s: %w", what, err)
		}
		got, err := s.all(ctx, a, w.Nodes())
		if err != nil {
			return err
		}
		if diff := differ(want, got); diff != "" {
			return fmt.Errorf("after %s and a whole replica: %s", what, diff)
		}
	}
	return nil
}

// unknownFields: a newer host may send more.
func unknownFields(ctx context.Context, s *suite, a artifact.Artifact) error {
	w := s.world(0)
	if err := a.Apply(ctx, w.Whole()); err != nil {
		return err
	}
	want, err := s.all(ctx, a, w.Nodes())
	if err != nil {
		return err
	}
	more := func(m proto.Message) {
		r := m.ProtoReflect()
		b := r.GetUnknown()
		b = protowire.AppendVarint(protowire.AppendTag(b, 2000, protowire.VarintType), 7)
		b = protowire.AppendFixed64(protowire.AppendTag(b, 2001, protowire.Fixed64Type), 7)
		b = protowire.AppendFixed32(protowire.AppendTag(b, 2002, protowire.Fixed32Type), 7)
		b = protowire.AppendString(protowire.AppendTag(b, 2003, protowire.BytesType), "later")
		r.SetUnknown(b)
	}
	d := w.Whole()
	for _, op := range d.Operations {
		switch o := op.GetOp().(type) {
		case *contractv1.Operation_NodeSet:
			more(o.NodeSet)
			more(o.NodeSet.Node)
		case *contractv1.Operation_PodAdd:
			more(o.PodAdd.Pod)
		case *contractv1.Operation_ClassSet:
			more(o.ClassSet)
			more(o.ClassSet.Pod)
		case *contractv1.Operation_ObjectSet:
			more(o.ObjectSet)
		}
	}
	later := &contractv1.Operation{}
	more(later)
	d.Operations = append(d.Operations, later)
	more(d)
	if err := a.Apply(ctx, d); err != nil {
		return fmt.Errorf("fields that this contract does not have: %w; skip them", err)
	}
	got, err := s.all(ctx, a, w.Nodes())
	if err != nil {
		return err
	}
	if diff := differ(want, got); diff != "" {
		return fmt.Errorf("with fields that this contract does not have: %s", diff)
	}
	return nil
}

func (s *suite) world(k int) *World { return NewWorld(s.Seed+uint64(k), s.Nodes, s.Words) }

func pure(ctx context.Context, s *suite, a artifact.Artifact) error {
	for k := range s.Seeds {
		w := s.world(k)
		if err := a.Apply(ctx, w.Whole()); err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		want, err := s.all(ctx, a, w.Nodes())
		if err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		for how, nodes := range map[string][]uint32{"asked again": w.Nodes(), "in another order": w.Shuffled()} {
			got, err := s.all(ctx, a, nodes)
			if err != nil {
				return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
			}
			if diff := differ(want, got); diff != "" {
				return fmt.Errorf("seed %d: %s: %s", s.Seed+uint64(k), how, diff)
			}
		}
		for _, n := range w.Nodes() {
			got, err := s.raw(ctx, a, []uint32{n})
			if err != nil {
				return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
			}
			if diff := differAt(want, got, n); diff != "" {
				return fmt.Errorf("seed %d: asked alone: %s", s.Seed+uint64(k), diff)
			}
		}
	}
	return nil
}

func replica(ctx context.Context, s *suite, a artifact.Artifact) error {
	var fresh artifact.Artifact
	defer func() {
		if fresh != nil {
			_ = fresh.Close(ctx) // the suite says so of a
		}
	}()
	for k := range s.Seeds {
		// Again at half-time: one that has seen nothing of what the other has.
		if k == 0 || k == s.Seeds/2 {
			if fresh != nil {
				if err := fresh.Close(ctx); err != nil {
					return err
				}
			}
			var err error
			if fresh, err = s.open(ctx); err != nil {
				fresh = nil
				return err
			}
			if err := s.configure(ctx, fresh); err != nil {
				return err
			}
		}
		seed := s.Seed + uint64(k)
		w := s.world(k)
		if err := a.Apply(ctx, w.Whole()); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		for step := range 8 {
			if err := a.Apply(ctx, w.Step()); err != nil {
				return fmt.Errorf("seed %d, delta %d: %w", seed, step+1, err)
			}
			if err := fresh.Apply(ctx, w.Whole()); err != nil {
				return fmt.Errorf("seed %d, replica %d: %w", seed, step+1, err)
			}
			got, err := s.all(ctx, a, w.Nodes())
			if err != nil {
				return fmt.Errorf("seed %d, delta %d: %w", seed, step+1, err)
			}
			want, err := s.all(ctx, fresh, w.Nodes())
			if err != nil {
				return fmt.Errorf("seed %d, replica %d: %w", seed, step+1, err)
			}
			if diff := differ(want, got); diff != "" {
				return fmt.Errorf("seed %d, delta %d: %s (the second is by deltas, the first by a whole replica)", seed, step+1, diff)
			}
		}
	}
	return nil
}

func ranges(ctx context.Context, s *suite, a artifact.Artifact) error {
	if !slices.ContainsFunc(s.plugins, func(p *contractv1.PluginDescription) bool { return p.GetKind() == sdk.KindPriority }) {
		return errSkip{"there is no priority"}
	}
	for k := range s.Seeds {
		w := s.world(k)
		if err := a.Apply(ctx, w.Whole()); err != nil {
			return err
		}
		answers, err := s.all(ctx, a, w.Nodes())
		if err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		for i, p := range s.plugins {
			in := answers[i].scores
			switch p.GetNormalize() {
			case string(sdk.NormalizePlugin), string(sdk.NormalizePluginNonzero):
				in = answers[i].normalized
			case string(sdk.NormalizeNone):
			case string(sdk.NormalizeMinMax):
				continue // any score will do
			default:
				for node, score := range in {
					if score < 0 {
						return fmt.Errorf("seed %d: %s scores node %d %d; a score that the host divides by the largest is not negative", s.Seed+uint64(k), p.GetName(), node, score)
					}
				}
				continue
			}
			most := p.GetMaxScore()
			if most == 0 {
				most = sdk.MaxScore
			}
			for node, score := range in {
				if score < 0 || score > most {
					return fmt.Errorf("seed %d: %s scores node %d %d, want 0 to %d", s.Seed+uint64(k), p.GetName(), node, score, most)
				}
			}
		}
	}
	return nil
}

// memory: what was replaced is given back.
func memory(ctx context.Context, s *suite, a artifact.Artifact) error {
	if a.MemoryBytes() == 0 {
		return errSkip{"it is not known here"}
	}
	w := NewWorld(s.Seed, 200, s.Words)
	round := func(n int) error {
		for range n {
			if err := a.Apply(ctx, w.Whole()); err != nil {
				return err
			}
			for range 4 {
				if err := a.Apply(ctx, w.Step()); err != nil {
					return err
				}
			}
			if _, err := s.raw(ctx, a, w.Nodes()); err != nil {
				return err
			}
		}
		return nil
	}
	if err := round(10); err != nil {
		return err
	}
	settled := a.MemoryBytes()
	if err := round(40); err != nil {
		return err
	}
	// Collectors need room; what leaks 200 nodes a round exceeds it by far.
	if now := a.MemoryBytes(); now > 2*settled+8<<20 {
		return fmt.Errorf("%d bytes after 10 replicas of 200 nodes, %d after 50: replaced nodes and pods are not given back", settled, now)
	}
	settled = a.MemoryBytes()
	questions := max(200, 5000/len(s.plugins))
	for range questions {
		if _, err := s.raw(ctx, a, w.Nodes()[:1]); err != nil {
			return err
		}
	}
	if now := a.MemoryBytes(); now > 2*settled+8<<20 {
		return fmt.Errorf("%d bytes before %d questions about one node, %d after them: a question leaves something behind", settled, questions, now)
	}
	return nil
}

// parts: a replica that is too large for one delta comes in several, which
// together are the whole.
func parts(ctx context.Context, s *suite, a artifact.Artifact) error {
	w := NewWorld(s.Seed, 1000, s.Words)
	whole := w.Whole()
	for at := 0; at < len(whole.Operations); at += 256 {
		part := &contractv1.Delta{Generation: whole.Generation, Reset_: at == 0, Operations: whole.Operations[at:min(at+256, len(whole.Operations))]}
		if err := a.Apply(ctx, part); err != nil {
			return err
		}
	}
	_, err := s.all(ctx, a, w.Nodes())
	return err
}

// answer is what one plugin said, by node index.
type answer struct {
	name       string
	reasons    map[uint32][]string
	scores     map[uint32]int64
	normalized map[uint32]int64
}

// all asks every plugin of the suite, with normalized scores.
func (s *suite) all(ctx context.Context, a artifact.Artifact, nodes []uint32) ([]answer, error) {
	return ask(ctx, a, s.plugins, nodes, true)
}

// raw leaves out normalized scores, which depend on all nodes that are asked about.
func (s *suite) raw(ctx context.Context, a artifact.Artifact, nodes []uint32) ([]answer, error) {
	return ask(ctx, a, s.plugins, nodes, false)
}

// ask asks the plugins of a with those names.
func ask(ctx context.Context, a artifact.Artifact, plugins []*contractv1.PluginDescription, nodes []uint32, normalize bool) ([]answer, error) {
	out := make([]answer, len(plugins))
	for k, p := range plugins {
		out[k].name = p.GetName()
		i := slices.IndexFunc(a.Plugins(), func(q *contractv1.PluginDescription) bool {
			return q.GetName() == p.GetName() && q.GetKind() == p.GetKind()
		})
		if i < 0 {
			return nil, fmt.Errorf("there is no %s %s", p.GetKind(), p.GetName())
		}
		switch p.GetKind() {
		case sdk.KindPredicate:
			reasons, err := a.Filter(ctx, i, Class, nodes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.GetName(), err)
			}
			out[k].reasons = map[uint32][]string{}
			for n, r := range reasons {
				out[k].reasons[nodes[n]] = r
			}
		case sdk.KindPriority:
			scores, err := a.Score(ctx, i, Class, nodes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.GetName(), err)
			}
			out[k].scores = byNode(nodes, scores)
			if !normalize || !rewrites(p) {
				continue
			}
			if p.GetNormalize() == string(sdk.NormalizePluginNonzero) && !slices.ContainsFunc(scores, func(s int64) bool { return s != 0 }) {
				out[k].normalized = byNode(nodes, scores) // it is not asked
				continue
			}
			if scores, err = a.Normalize(ctx, i, Class, nodes, scores); err != nil {
				return nil, fmt.Errorf("%s: %w", p.GetName(), err)
			}
			out[k].normalized = byNode(nodes, scores)
		}
	}
	return out, nil
}

func byNode(nodes []uint32, scores []int64) map[uint32]int64 {
	m := make(map[uint32]int64, len(nodes))
	for k, n := range nodes {
		m[n] = scores[k]
	}
	return m
}

// differ says where two lists of answers about the same nodes differ first.
func differ(want, got []answer) string {
	for k := range want {
		for n := range want[k].reasons {
			if diff := differAt(want[k:k+1], got[k:k+1], n); diff != "" {
				return diff
			}
		}
		for n := range want[k].scores {
			if diff := differAt(want[k:k+1], got[k:k+1], n); diff != "" {
				return diff
			}
			if want[k].normalized[n] != got[k].normalized[n] {
				return fmt.Sprintf("%s normalizes node %d to %d and %d", want[k].name, n, want[k].normalized[n], got[k].normalized[n])
			}
		}
	}
	return ""
}

func differAt(want, got []answer, node uint32) string {
	for k := range want {
		if w, g := want[k].reasons[node], got[k].reasons[node]; !slices.Equal(w, g) {
			return fmt.Sprintf("%s says %s and %s of node %d", want[k].name, words(w), words(g), node)
		}
		if w, g := want[k].scores[node], got[k].scores[node]; w != g {
			return fmt.Sprintf("%s scores %d and %d for node %d", want[k].name, w, g, node)
		}
	}
	return ""
}

func words(reasons []string) string {
	if len(reasons) == 0 {
		return "that it fits"
	}
	return fmt.Sprintf("%q", strings.Join(reasons, "; "))
}
