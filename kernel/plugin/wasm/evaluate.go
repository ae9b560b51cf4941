package wasm

import (
	"context"
	"encoding/binary"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Numbers of pintle_evaluate (sdk/ABI.md): all of the request's nodes, and a
// verdict about a node that a filter before refused.
const allNodes, leftOut = ^uint32(0), ^uint32(0)

// evaluations is the memory of calls to pintle_evaluate, used again.
type evaluations struct {
	request  []byte
	answer   []byte
	verdicts []uint32
	scores   []int64
	took     []time.Duration
}

// ForgetClasses has the guest answer one question at a time and know no classes, as a
// module does that exports no pintle_evaluate.
func (g *Guest) ForgetClasses() { g.evaluateFn = nil }

func (g *Guest) Evaluates() bool { return g.evaluateFn != nil }

// Evaluate asks in one call. The answers are good until the next one.
func (g *Guest) Evaluate(_ context.Context, queue []guest.Part, generation uint64, n *guest.Asked, e *contractv1.Evaluation) ([]time.Duration, error) {
	memory := &g.evaluations
	memory.request = g.evaluationRequest(memory.request[:0], n, e)
	request := memory.request
	verdicts, scores := 0, 0
	count := func(nodes []uint32) int {
		if nodes == nil {
			return len(e.Nodes)
		}
		return len(nodes)
	}
	for _, q := range e.Filters {
		verdicts += count(q.Nodes)
	}
	for _, q := range e.Scores {
		scores += count(q.Nodes)
	}
	words := 1 + (verdicts+1)/2 + scores
	// All buffers first: making one may move another's view.
	if _, err := g.buffer(&g.out, uint32(8*words)); err != nil {
		return nil, err
	}
	if _, err := g.buffer(&g.nodes, uint32(len(request))); err != nil {
		return nil, err
	}
	data, err := g.buffer(&g.data, uint32(guest.BytesOf(queue)))
	if err != nil {
		return nil, err
	}
	out, err := g.buffer(&g.out, 8)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint64(out, ^uint64(0)) // nothing was begun
	// Encodings of deltas one behind the other are the encoding of all.
	at := 0
	for _, p := range queue {
		at += copy(data[at:], p.Encoded)
	}
	view, err := g.buffer(&g.nodes, uint32(len(request)))
	if err != nil {
		return nil, err
	}
	copy(view, request)
	g.stack = [6]uint64{uint64(g.data.pointer), uint64(at), uint64(g.nodes.pointer), uint64(len(request) / 4), uint64(g.out.pointer), uint64(words)}
	var began time.Time
	if !n.Brief {
		began = time.Now()
	}
	err = g.invoke(g.evaluateFn, g.Timeout)
	g.slices()
	if err != nil {
		if out, ok := g.memory.Read(g.out.pointer, 8); ok {
			if k := binary.LittleEndian.Uint64(out); k < uint64(len(e.Filters)+len(e.Scores)) {
				err = &guest.QuestionError{Question: int(k), Err: err}
			}
		}
		return nil, err
	}
	var elapsed time.Duration
	if !n.Brief {
		elapsed = time.Since(began)
	}
	if g.stack[0] != 0 {
		if err := g.answered(); err != nil {
			return nil, err
		}
	}
	out, err = g.buffer(&g.out, uint32(8*words))
	if err != nil {
		return nil, err
	}
	answered := binary.LittleEndian.Uint64(out)
	if answered > uint64(len(e.Filters)+len(e.Scores)) {
		return nil, g.outOfRange("%d answers to %d questions", answered, len(e.Filters)+len(e.Scores))
	}
	memory.answer = append(memory.answer[:0], out[8:]...) // asking for words may move the view
	return g.takeEvaluation(memory.answer, int(answered), elapsed, n, e)
}

// evaluationRequest appends the request as pintle_evaluate takes it.
func (g *Guest) evaluationRequest(out []byte, n *guest.Asked, e *contractv1.Evaluation) []byte {
	word := func(v uint32) { out = binary.LittleEndian.AppendUint32(out, v) }
	list := func(nodes []uint32) {
		word(uint32(len(nodes)))
		for _, n := range nodes {
			word(n)
		}
	}
	question := func(at int, nodes []uint32) {
		word(uint32(at))
		if nodes == nil {
			word(allNodes)
		} else {
			list(nodes)
		}
	}
	word(e.Class)
	word(uint32(len(e.Filters)))
	word(uint32(len(e.Scores)))
	list(e.Nodes)
	for k := range e.Filters {
		question(n.Plugins[k].Index, e.Filters[k].Nodes)
	}
	for k := range e.Scores {
		question(n.Plugins[len(e.Filters)+k].Index, e.Scores[k].Nodes)
	}
	return out
}

// takeEvaluation fills in the answers of the first questions.
func (g *Guest) takeEvaluation(out []byte, answered int, elapsed time.Duration, n *guest.Asked, e *contractv1.Evaluation) ([]time.Duration, error) {
	memory := &g.evaluations
	memory.verdicts, memory.scores, memory.took = memory.verdicts[:0], memory.scores[:0], memory.took[:0]
	var narrowing contractv1.Narrowing
	of := func(nodes []uint32) []uint32 {
		if nodes == nil {
			return e.Nodes
		}
		return nodes
	}
	at := 0
	for k := range e.Filters {
		q := &e.Filters[k]
		nodes := of(q.Nodes)
		if k >= answered {
			at += 4 * len(nodes)
			continue
		}
		first := len(memory.verdicts)
		for range nodes {
			if v := binary.LittleEndian.Uint32(out[at:]); v != leftOut {
				memory.verdicts = append(memory.verdicts, v)
			}
			at += 4
		}
		verdicts := memory.verdicts[first:len(memory.verdicts):len(memory.verdicts)]
		left := narrowing.Left(nodes)
		if len(left) != len(verdicts) {
			return nil, g.outOfRange("%d verdicts for %d nodes", len(verdicts), len(left))
		}
		if err := g.LearnAll(n.Plugins[k].Index, verdicts); err != nil {
			return nil, err
		}
		narrowing.Refuse(left, verdicts)
		q.Answered, q.Verdicts = left, verdicts
		if n.Plugins[k].Expires {
			var err error
			if q.Until, err = g.Until(n.Plugins[k].Index); err != nil {
				return nil, err
			}
		}
		memory.took = append(memory.took, 0)
	}
	at = (at + 7) &^ 7
	for k := range e.Scores {
		if len(e.Filters)+k >= answered {
			break
		}
		q := &e.Scores[k]
		nodes := of(q.Nodes)
		left, first := narrowing.Left(nodes), len(memory.scores)
		taken := 0
		for _, n := range nodes {
			if taken < len(left) && left[taken] == n {
				memory.scores = append(memory.scores, int64(binary.LittleEndian.Uint64(out[at:])))
				taken++
			}
			at += 8
		}
		q.Answered, q.Scores = left, memory.scores[first:len(memory.scores):len(memory.scores)]
		if at := len(e.Filters) + k; n.Plugins[at].Expires {
			var err error
			if q.Until, err = g.Until(n.Plugins[at].Index); err != nil {
				return nil, err
			}
		}
		if q.Scores == nil {
			q.Scores = []int64{}
		}
		memory.took = append(memory.took, 0)
	}
	Share(memory.took, elapsed, e)
	return memory.took, nil
}

// Share divides what an evaluation took among its questions. A module has no clock
// of its own: by answers.
func Share(took []time.Duration, elapsed time.Duration, e *contractv1.Evaluation) {
	if elapsed == 0 {
		return
	}
	total := 0
	answers := func(k int) int {
		if k < len(e.Filters) {
			return len(e.Filters[k].Answered)
		}
		return len(e.Scores[k-len(e.Filters)].Answered)
	}
	for k := range took {
		total += answers(k)
	}
	for k := range took {
		took[k] = elapsed * time.Duration(answers(k)) / time.Duration(max(total, 1))
	}
}
