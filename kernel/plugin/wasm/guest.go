package wasm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/description"
	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/reasons"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/abi"
	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	DefaultMemoryLimit = 256 << 20
	maxDescription     = 1 << 20
)

// caller calls the exports of one instance, and carries out what they call of the host.
type caller struct {
	name     string
	module   *Module
	instance instance
	memory   engine.Memory
	linear   *engine.LinearMemory
	ctx      context.Context // carries the guest to its host functions
	// deadline of the call under way. It is zero before somebody asks for it: most
	// calls end before they used up their first slice of fuel, and a look at the
	// clock is a good part of what they cost. patience is what the call has.
	deadline time.Time
	patience time.Duration
	// Timeout is what a question has.
	Timeout time.Duration
	// sliced: the last brief question used up a slice of fuel, for the first time at
	// slicedAt.
	sliced bool
	// lender is told of a call that is late; lent: it let others go on.
	lender   guest.Lender
	lent     bool
	slicedAt time.Time
	stack    [6]uint64

	// While a reconciliation runs: its context, who carries out host functions,
	// and the answer that the module did not fetch yet.
	operating context.Context //nolint:containedctx // crosses the module's stack frames
	operate   func(ctx context.Context, function string, request []byte) []byte
	answer    []byte

	alloc, free, errorFn *export
	data                 wasmBuffer // for what a call takes
}

// Guest is one instance of a module.
type Guest struct {
	caller
	plugins []*contractv1.PluginDescription
	watches []watches                          // of controllers, by plugin
	words   []map[uint32]*contractv1.ReasonSet // by plugin and verdict

	// controllers and reviewers have instances of their own, by settings.
	controllers *reconcilers
	reviewers   *reviewers
	settings    Settings
	// revision is that of the configuration which a further instance has.
	revision uint64

	applyFn, configureFn, filterFn, scoreFn, normalizeFn, reasonFn *export
	cycleFn, answerFn                                              *export // nil where the module has no plugin that needs them
	instanceFn                                                     *export // nil where there is one instance a plugin

	// evaluateFn is nil where the module does not answer several questions at
	// once; one that does knows classes.
	evaluateFn  *export
	evaluations evaluations

	// reconcileFn and admitFn are nil where the module has no such export.
	reconcileFn, admitFn *export
	unresolvableFn       *export  // nil where no verdict is
	movedFn              *export  // nil where no plugin keeps count
	untilFn              *export  // nil where no answer ends with time
	idleFn               *export  // nil where each plugin has to do with all pods
	indifferentFn        *export  // nil where pods of a class may concern each other
	aloofFn              *export  // nil where any pods may
	movedNodes           []uint32 // the last answer of it

	nodes, out wasmBuffer
}

// wasmBuffer is a buffer in the guest's memory that calls reuse.
type wasmBuffer struct {
	pointer, size uint32
	view          []byte // of all of it, where memory does not move; nil: look again
}

var _ guest.Guest = (*Guest)(nil)

// Instantiate makes a fresh instance: its memory is new, its code is shared.
func (m *Module) Instantiate(timeout, start time.Duration, log *slog.Logger) (_ *Guest, err error) {
	g := &Guest{caller: caller{name: m.name, module: m, Timeout: timeout}, reviewers: newReviewers()}
	g.controllers = newReconcilers(g)
	g.ctx = engine.Context(g)
	g.deadline, g.patience = time.Now().Add(start), start
	if g.instance, err = m.begin(g, log); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: start module: %w", m.name, trapped(err))
	}
	g.linear = g.instance.linear()
	defer func() {
		if err != nil {
			g.instance.close(context.Background())
		}
	}()
	if g.memory = g.instance.memory(); g.memory == nil {
		return nil, fmt.Errorf("plugin bundle %s: %w: module exports no memory as %q (see sdk/ABI.md)", m.name, guest.ErrPermanent, abi.Memory)
	}
	version, negotiate, describe, err := g.bind()
	if err != nil {
		return nil, err
	}
	if err := g.agree(version, negotiate, start); err != nil {
		return nil, err
	}
	if err := g.learnPlugins(describe, start); err != nil {
		return nil, err
	}
	return g, nil
}

// bind finds the exports of the instance.
func (g *Guest) bind() (version, negotiate, describe *export, err error) {
	calls := map[string]**export{
		"pintle_abi_version": &version, "pintle_alloc": &g.alloc, "pintle_free": &g.free, "pintle_describe": &describe,
		"pintle_configure": &g.configureFn, "pintle_apply": &g.applyFn, "pintle_filter": &g.filterFn, "pintle_score": &g.scoreFn,
		"pintle_normalize": &g.normalizeFn, "pintle_reason": &g.reasonFn, "pintle_error": &g.errorFn,
		"pintle_contract": &negotiate, "pintle_cycle": &g.cycleFn, "pintle_answer": &g.answerFn, "pintle_evaluate": &g.evaluateFn,
		"pintle_instance": &g.instanceFn, "pintle_unresolvable": &g.unresolvableFn, "pintle_moved": &g.movedFn,
		"pintle_until": &g.untilFn,
		"pintle_idle":  &g.idleFn, "pintle_indifferent": &g.indifferentFn, "pintle_aloof": &g.aloofFn,
		"pintle_reconcile": &g.reconcileFn, "pintle_admit": &g.admitFn,
	}
	for _, e := range abi.Exports() {
		f := g.instance.function(e.Name)
		if f == nil && e.Optional {
			continue
		}
		if f == nil {
			return nil, nil, nil, fmt.Errorf("plugin bundle %s: %w: module exports no %s (see sdk/ABI.md)", g.name, guest.ErrPermanent, e.Name)
		}
		if got := f.signature; got != e.Signature() {
			return nil, nil, nil, fmt.Errorf("plugin bundle %s: %w: %s has signature %s, want %s (see sdk/ABI.md)", g.name, guest.ErrPermanent, e.Name, got, e.Signature())
		}
		*calls[e.Name] = f
	}
	return version, negotiate, describe, nil
}

// agree finds out whether the module and the kernel speak one version.
func (g *Guest) agree(version, negotiate *export, start time.Duration) error {
	if err := g.invoke(version, start); err != nil {
		return err
	}
	if v := int32(g.stack[0]); v != sdk.ABIVersion {
		return fmt.Errorf("plugin bundle %s: %w: module speaks ABI version %d, this kernel %d", g.name, guest.ErrPermanent, v, sdk.ABIVersion)
	}
	if negotiate != nil {
		g.stack[0], g.stack[1] = uint64(guest.Contract.Oldest), uint64(guest.Contract.Newest)
		if err := g.invoke(negotiate, start); err != nil {
			return err
		}
		if err := guest.Contract.Check(g.name, uint32(g.stack[0])); err != nil {
			return err
		}
	}
	return nil
}

// described is what a module says of itself.
type described struct {
	Contract *uint32 `json:"contract"`
	Plugins  []struct {
		Name, Kind, Scope, Normalize string
		Pods                         string
		MaxScore                     int64
		Reads                        []string
		watches
		Instances bool
		Phase     string
		Rules     []struct{ Operations, Resources []string }

		Hears, ByClass bool
		Samples, Ranks bool
		Expires        bool
		Events         []struct {
			Kind    string
			Actions uint32
			Hint    bool
		}
	} `json:"plugins"`
}

// learnPlugins asks the module which plugins it has.
func (g *Guest) learnPlugins(describe *export, start time.Duration) error {
	if err := g.invoke(describe, start); err != nil {
		return err
	}
	text, err := g.span(g.stack[0], maxDescription)
	if err != nil {
		return err
	}
	var said described
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("plugin bundle %s: %w: description: %w", g.name, guest.ErrPermanent, err)
	}
	speaks := uint32(contract.One) // where it does not say
	if said.Contract != nil {
		speaks = *said.Contract
	}
	if err := guest.Contract.Check(g.name, speaks); err != nil {
		return err
	}
	for _, p := range said.Plugins {
		if sdk.SchedulingKind(p.Kind) && contract.Of(p.Kind) > contract.One && (g.cycleFn == nil || g.answerFn == nil) {
			return fmt.Errorf("plugin bundle %s: %w: module has %s %s and exports no pintle_cycle and pintle_answer (see sdk/ABI.md)", g.name, guest.ErrPermanent, p.Kind, p.Name)
		}
		if p.Expires && g.untilFn == nil {
			return fmt.Errorf("plugin bundle %s: %w: module has %s %s with expires and exports no pintle_until (see sdk/ABI.md)", g.name, guest.ErrPermanent, p.Kind, p.Name)
		}
		d := &contractv1.PluginDescription{Name: p.Name, Kind: p.Kind, Scope: p.Scope, Normalize: p.Normalize, MaxScore: p.MaxScore, Reads: p.Reads, Phase: p.Phase, Hears: p.Hears, ByClass: p.ByClass, Samples: p.Samples, Ranks: p.Ranks, Expires: p.Expires, Pods: p.Pods, Instances: p.Instances && g.instanceFn != nil}
		for _, e := range p.Events {
			d.Events = append(d.Events, &contractv1.Interest{Kind: e.Kind, Actions: e.Actions, Hint: e.Hint})
		}
		for _, r := range p.Rules {
			d.Rules = append(d.Rules, &contractv1.AdmissionRule{Operations: r.Operations, Resources: r.Resources})
		}
		g.plugins = append(g.plugins, d)
		g.watches = append(g.watches, p.watches)
		g.words = append(g.words, map[uint32]*contractv1.ReasonSet{})
	}
	if err := description.Check(speaks, g.plugins); err != nil {
		return fmt.Errorf("plugin bundle %s: %w: %w", g.name, guest.ErrPermanent, err)
	}
	return nil
}

// place puts data for plugin i into the guest's memory and, for the next invoke,
// plugin, pointer and size on the stack.
func (g *caller) place(i int, data []byte) error {
	view, err := g.buffer(&g.data, uint32(len(data)))
	if err != nil {
		return err
	}
	copy(view, data)
	g.stack[0], g.stack[1], g.stack[2] = uint64(i), uint64(g.data.pointer), uint64(len(data))
	return nil
}

// invoke calls with what lies on g.stack; the result replaces it.
func (g *caller) invoke(f *export, timeout time.Duration) error {
	g.deadline, g.patience = time.Time{}, timeout
	var err error
	if g.module.worker != nil {
		err = guest.Watched(g.lender, func() error { return f.code.CallWithStack(g.ctx, g.stack[:]) })
	} else if err = f.code.CallWithStack(g.ctx, g.stack[:]); g.lent {
		g.lent = false
		g.lender.Reclaim(err == nil)
	}
	if err != nil {
		return fmt.Errorf("plugin bundle %s: %s: %w", g.name, f.name, trapped(err))
	}
	return nil
}

// trapped shortens wazero's error, which carries a stack trace, to its first line.
func trapped(err error) error {
	if errors.Is(err, engine.ErrDeadline) {
		return guest.Broken("no answer in time")
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return guest.Broken("%s", reasons.Text(line))
}

func (g *caller) outOfRange(what string, args ...any) error {
	return guest.Broken("plugin bundle %s: answer out of range: %s", g.name, fmt.Sprintf(what, args...))
}

// span copies text that the guest returned as pointer<<32|length.
func (g *caller) span(packed uint64, limit uint32) ([]byte, error) {
	pointer, size := uint32(packed>>32), uint32(packed)
	if size > limit {
		return nil, g.outOfRange("%d bytes, at most %d", size, limit)
	}
	view, ok := g.memory.Read(pointer, size)
	if !ok {
		return nil, g.outOfRange("%d bytes at %#x are not in its memory", size, pointer)
	}
	return bytes.Clone(view), nil
}

// buffer makes sure that b holds size bytes and returns a view of them. The
// view is good until the guest runs again, which may grow its memory.
func (g *caller) buffer(b *wasmBuffer, size uint32) ([]byte, error) {
	if size <= uint32(len(b.view)) {
		return b.view[:size:size], nil
	}
	if b.size < size {
		if b.pointer != 0 {
			g.stack[0] = uint64(b.pointer)
			if err := g.invoke(g.free, g.Timeout); err != nil {
				return nil, err
			}
		}
		want := max(size+size/4, 1024)
		g.stack[0] = uint64(want)
		if err := g.invoke(g.alloc, g.Timeout); err != nil {
			return nil, err
		}
		b.pointer, b.size, b.view = uint32(g.stack[0]), want, nil
		if b.pointer == 0 || b.pointer%8 != 0 {
			return nil, g.outOfRange("pintle_alloc returned %#x", b.pointer)
		}
		// What is mapped stays where it is, and a memory does not shrink.
		if end := uint64(b.pointer) + uint64(b.size); end <= g.linear.Used() {
			b.view = g.linear.Mapped()[b.pointer:end:end]
		}
	}
	view, ok := g.memory.Read(b.pointer, size)
	if !ok {
		return nil, g.outOfRange("%d bytes at %#x are not in its memory", size, b.pointer)
	}
	return view, nil
}

// answered turns a status of ABI.md into an error.
func (g *caller) answered() error {
	status := int32(g.stack[0])
	if status == 0 {
		return nil
	}
	if status > 0 || status < -6 {
		return g.outOfRange("status %d", status)
	}
	return g.failure(g.Timeout)
}

// failure asks why the last call failed.
func (g *caller) failure(timeout time.Duration) error {
	if err := g.invoke(g.errorFn, timeout); err != nil {
		return err
	}
	text, err := g.span(g.stack[0], guest.MaxReasonBytes)
	if err != nil {
		return err
	}
	return fmt.Errorf("plugin bundle %s: %s", g.name, cmp.Or(reasons.Text(string(text)), "no reason given"))
}

func (g *Guest) Describe() []*contractv1.PluginDescription { return g.plugins }

func (g *caller) Health(context.Context) error {
	// One in this process says itself when it broke.
	if err := g.module.Lost(); err != nil {
		return guest.Broken("plugin bundle %s: %w", g.name, err)
	}
	return nil
}

func (g *caller) PID() int {
	if g.module.worker == nil {
		return 0
	}
	return g.module.worker.PID()
}

// Usage is the memory of the instance, and what it may grow to.
func (g *Guest) Usage() (used, most int64) {
	return int64(g.memory.Size()), int64(len(g.linear.Mapped()))
}

// Lacks are the walls that the worker runs without.
func (g *caller) Lacks() []confinement.Wall {
	if g.module.worker == nil {
		return nil
	}
	return g.module.worker.Lacks()
}

func (g *Guest) Close(ctx context.Context, _ time.Duration) error {
	g.controllers.close()
	g.reviewers.close()
	return g.instance.close(ctx)
}

func (g *Guest) Configure(_ context.Context, i int, config []byte) error {
	if err := g.place(i, config); err != nil {
		return err
	}
	if err := g.invoke(g.configureFn, g.Timeout*guest.ConfigureFactor); err != nil {
		return err
	}
	return g.answered()
}

func (g *Guest) Another(_ context.Context, i int, name string) (int, error) {
	view, err := g.buffer(&g.data, uint32(len(name)))
	if err != nil {
		return 0, err
	}
	copy(view, name)
	g.stack[0], g.stack[1], g.stack[2] = uint64(i), uint64(g.data.pointer), uint64(len(name))
	if err := g.invoke(g.instanceFn, g.Timeout*guest.ConfigureFactor); err != nil {
		return 0, err
	}
	if index := int32(g.stack[0]); index > 0 {
		if int(index) != len(g.plugins) {
			return 0, g.outOfRange("instance %d of %s, want %d", index, name, len(g.plugins))
		}
		g.plugins = append(g.plugins, guest.InstanceOf(g.plugins[i], name))
		g.watches = append(g.watches, g.watches[i])
		g.words = append(g.words, map[uint32]*contractv1.ReasonSet{})
		return int(index), nil
	}
	if err := g.answered(); err != nil {
		return 0, err
	}
	return 0, g.outOfRange("instance 0 of %s", name)
}

func (g *Guest) Apply(_ context.Context, p guest.Part, timeout time.Duration) error {
	encoded, err := p.Bytes(g.evaluateFn != nil)
	if err != nil {
		return err
	}
	view, err := g.buffer(&g.data, uint32(len(encoded)))
	if err != nil {
		return err
	}
	copy(view, encoded)
	g.stack[0], g.stack[1] = uint64(g.data.pointer), uint64(len(encoded))
	if err := g.invoke(g.applyFn, timeout); err != nil {
		return err
	}
	if g.data.size > 1<<20 {
		// A whole replica is rare; its buffer would stay for nothing.
		pointer := g.data.pointer
		g.data = wasmBuffer{}
		status := g.stack[0]
		g.stack[0] = uint64(pointer)
		if err := g.invoke(g.free, g.Timeout); err != nil {
			return err
		}
		g.stack[0] = status
	}
	return g.answered()
}

// ask puts the node indexes into the guest's memory and calls f; width is the
// size of one answer.
func (g *Guest) ask(f *export, i int, class uint32, nodes []uint32, width int, scores []int64) ([]byte, error) {
	// Both buffers first: making one may move the other's view.
	if _, err := g.buffer(&g.out, uint32(len(nodes)*width)); err != nil {
		return nil, err
	}
	view, err := g.buffer(&g.nodes, uint32(len(nodes)*4))
	if err != nil {
		return nil, err
	}
	view = view[:4*len(nodes)]
	for k, n := range nodes {
		binary.LittleEndian.PutUint32(view[4*k:], n)
	}
	if scores != nil {
		out, err := g.buffer(&g.out, uint32(len(nodes)*width))
		if err != nil {
			return nil, err
		}
		for k, s := range scores {
			binary.LittleEndian.PutUint64(out[8*k:], uint64(s))
		}
	}
	g.stack = [6]uint64{uint64(i), uint64(class), uint64(g.nodes.pointer), uint64(len(nodes)), uint64(g.out.pointer)}
	if err := g.invoke(f, g.Timeout); err != nil {
		return nil, err
	}
	if g.stack[0] != 0 {
		if err := g.answered(); err != nil {
			return nil, err
		}
	}
	return g.buffer(&g.out, uint32(len(nodes)*width))
}

// askOne calls f about one node, when both buffers are there; the view is of the answer.
func (g *Guest) askOne(f *export, i int, class, node uint32) ([]byte, error) {
	binary.LittleEndian.PutUint32(g.nodes.view, node)
	g.stack = [6]uint64{uint64(i), uint64(class), uint64(g.nodes.pointer), 1, uint64(g.out.pointer)}
	err := g.invoke(f, g.Timeout)
	g.slices()
	if err == nil && g.stack[0] != 0 {
		err = g.answered()
	}
	return g.out.view, err
}

func (g *Guest) Quickly() bool { return g.nodes.view != nil && g.out.view != nil }

func (g *Guest) FilterOne(i int, class, node uint32) (uint32, error) {
	view, err := g.askOne(g.filterFn, i, class, node)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(view), nil
}

func (g *Guest) ScoreOne(i int, class, node uint32) (int64, error) {
	view, err := g.askOne(g.scoreFn, i, class, node)
	if err != nil {
		return 0, err
	}
	return int64(binary.LittleEndian.Uint64(view)), nil
}

func (g *caller) UsedSlice() bool { return g.sliced }

// slices notes whether the call that ended used up a slice of fuel.
func (g *caller) slices() {
	if g.sliced = !g.deadline.IsZero(); g.sliced {
		g.slicedAt = g.deadline.Add(-g.patience)
	}
}

// Elapsed is how long a brief question took that ended now.
func (g *caller) Elapsed(now time.Time) time.Duration {
	if !g.sliced {
		return 0
	}
	return now.Sub(g.slicedAt)
}

func (g *Guest) Filter(_ context.Context, i int, class uint32, nodes, out []uint32) error {
	view, err := g.ask(g.filterFn, i, class, nodes, 4, nil)
	if err != nil {
		return err
	}
	for k := range out {
		out[k] = binary.LittleEndian.Uint32(view[4*k:])
	}
	return g.LearnAll(i, out)
}

// LearnAll asks for the words behind verdicts that were not seen before.
func (g *Guest) LearnAll(i int, verdicts []uint32) error {
	known, last := g.words[i], uint32(0)
	for _, verdict := range verdicts {
		if verdict == 0 || verdict == last {
			continue
		}
		if _, ok := known[verdict]; !ok {
			if err := g.learn(i, verdict); err != nil {
				return err
			}
		}
		last = verdict
	}
	return nil
}

// learn asks for the words behind a verdict that was not seen before.
func (g *Guest) learn(i int, verdict uint32) error {
	if verdict > guest.MaxVerdict {
		return g.outOfRange("verdict %d", verdict)
	}
	g.stack[0], g.stack[1] = uint64(i), uint64(verdict)
	if err := g.invoke(g.reasonFn, g.Timeout); err != nil {
		return err
	}
	text, err := g.span(g.stack[0], guest.MaxReasonBytes)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return g.outOfRange("verdict %d has no reason", verdict)
	}
	set := &contractv1.ReasonSet{Reasons: reasons.Of(guest.PluginOf(g.plugins[i].GetName()), strings.Split(string(text), "\n"))}
	if g.unresolvableFn != nil {
		g.stack[0], g.stack[1] = uint64(i), uint64(verdict)
		if err := g.invoke(g.unresolvableFn, g.Timeout); err != nil {
			return err
		}
		set.Unresolvable = uint32(g.stack[0]) != 0
	}
	g.words[i][verdict] = set
	return nil
}

func (g *Guest) Cycle(_ context.Context, req *contractv1.CycleRequest, timeout time.Duration) (*contractv1.CycleResponse, error) {
	if g.cycleFn == nil || g.answerFn == nil {
		return nil, fmt.Errorf("plugin bundle %s: its module exports no pintle_cycle", g.name)
	}
	size := proto.Size(req)
	view, err := g.buffer(&g.data, uint32(size))
	if err != nil {
		return nil, err
	}
	encoded, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(view[:0:size], req)
	if err != nil || len(encoded) != size {
		return nil, fmt.Errorf("plugin bundle %s: encode %d bytes of a request in %d: %w", g.name, size, len(encoded), err)
	}
	g.stack[0], g.stack[1] = uint64(g.data.pointer), uint64(size)
	if err := g.invoke(g.cycleFn, timeout); err != nil {
		return nil, err
	}
	if err := g.answered(); err != nil {
		return nil, err
	}
	if err := g.invoke(g.answerFn, g.Timeout); err != nil {
		return nil, err
	}
	answer, err := g.span(g.stack[0], guest.MaxCycleAnswer)
	if err != nil {
		return nil, err
	}
	resp := &contractv1.CycleResponse{}
	if err := proto.Unmarshal(answer, resp); err != nil {
		return nil, g.outOfRange("no CycleResponse: %v", err)
	}
	for _, r := range resp.GetResults() {
		if r.GetBound() {
			return nil, g.outOfRange("a module cannot have written a binding")
		}
	}
	return resp, nil
}

func (g *Guest) Reasons(i int, verdict uint32) []string {
	return g.words[i][verdict].GetReasons()
}

func (g *Guest) Unresolvable(i int, verdict uint32) bool {
	return g.words[i][verdict].GetUnresolvable()
}

func (g *Guest) Score(_ context.Context, i int, class uint32, nodes []uint32, out []int64) error {
	view, err := g.ask(g.scoreFn, i, class, nodes, 8, nil)
	if err != nil {
		return err
	}
	for k := range out {
		out[k] = int64(binary.LittleEndian.Uint64(view[8*k:]))
	}
	return nil
}

func (g *Guest) Normalize(_ context.Context, i int, class uint32, nodes []uint32, scores []int64) error {
	view, err := g.ask(g.normalizeFn, i, class, nodes, 8, scores)
	if err != nil {
		return err
	}
	for k := range scores {
		scores[k] = int64(binary.LittleEndian.Uint64(view[8*k:]))
	}
	return nil
}
