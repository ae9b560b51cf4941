package artifact

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Evaluator is an Artifact that answers several questions about one class in one
// call: a process, and a module that exports pintle_evaluate.
type Evaluator interface {
	// Evaluate applies the deltas of the request and answers it; ErrRefused: it does
	// not know the call.
	Evaluate(ctx context.Context, req *contractv1.EvaluateRequest) (*contractv1.EvaluateResponse, error)
}

var (
	_ Evaluator = (*instance)(nil)
	_ Evaluator = (*Process)(nil)
)

// Numbers of pintle_evaluate: all of the request's nodes, and the verdict about a
// node that a predicate before refused.
const allNodes, leftOut = ^uint32(0), ^uint32(0)

// Evaluate implements Evaluator by pintle_evaluate.
func (i *instance) Evaluate(ctx context.Context, req *contractv1.EvaluateRequest) (*contractv1.EvaluateResponse, error) {
	const name = "pintle_evaluate"
	if i.calls[name] == nil {
		return nil, fmt.Errorf("%w: the module exports no %s", ErrRefused, name)
	}
	request, verdicts, scores, err := i.evaluation(req)
	if err != nil {
		return nil, err
	}
	size := 8 * (1 + (verdicts+1)/2 + scores)
	// One behind the other they are the encoding of all.
	delta := slices.Concat(req.GetDeltas()...)
	for _, b := range []struct {
		buffer *buffer
		size   int
	}{{&i.out, size}, {&i.nodes, len(request)}, {&i.data, len(delta)}} {
		if err := i.reserve(ctx, b.buffer, b.size); err != nil {
			return nil, err
		}
	}
	out := i.view(i.out, size)
	for k := range out {
		out[k] = 0xa5 // what the last call left must not pass for an answer
	}
	binary.LittleEndian.PutUint64(out, ^uint64(0))
	copy(i.view(i.nodes, len(request)), request)
	copy(i.view(i.data, len(delta)), delta)
	status, err := i.call(ctx, name, uint64(i.data.pointer), uint64(len(delta)), uint64(i.nodes.pointer), uint64(len(request)/4),
		uint64(i.out.pointer), uint64(size/8))
	if err != nil {
		return nil, err
	}
	if err := i.answered(ctx, name, status); err != nil {
		return nil, err
	}
	// Asking for words may move it.
	return i.evaluated(ctx, req, slices.Clone(i.view(i.out, size)))
}

// evaluation encodes a request, and counts its answers.
func (i *instance) evaluation(req *contractv1.EvaluateRequest) (words []byte, verdicts, scores int, err error) {
	word := func(v uint32) { words = binary.LittleEndian.AppendUint32(words, v) }
	list := func(nodes []uint32) {
		word(uint32(len(nodes)))
		for _, n := range nodes {
			word(n)
		}
	}
	word(req.GetClass())
	word(uint32(len(req.GetFilters())))
	word(uint32(len(req.GetScores())))
	list(req.GetNodes())
	question := func(kind string, q *contractv1.Question) int {
		at := slices.IndexFunc(i.plugins, func(p *contractv1.PluginDescription) bool {
			return p.GetKind() == kind && p.GetName() == q.GetPlugin()
		})
		if at < 0 {
			err = errors.Join(err, fmt.Errorf("there is no %s %s", kind, q.GetPlugin()))
		}
		word(uint32(at))
		if len(q.GetNodes()) == 0 {
			word(allNodes)
			return len(req.GetNodes())
		}
		list(q.GetNodes())
		return len(q.GetNodes())
	}
	for _, q := range req.GetFilters() {
		verdicts += question(sdk.KindPredicate, q)
	}
	for _, q := range req.GetScores() {
		scores += question(sdk.KindPriority, q)
	}
	return words, verdicts, scores, err
}

// evaluated decodes the answers in the form of a process: of the nodes that no
// predicate before refused.
func (i *instance) evaluated(ctx context.Context, req *contractv1.EvaluateRequest, out []byte) (*contractv1.EvaluateResponse, error) {
	questions := len(req.GetFilters()) + len(req.GetScores())
	answered := binary.LittleEndian.Uint64(out)
	if answered > uint64(questions) {
		return nil, fmt.Errorf("pintle_evaluate says %d answers to %d questions", int64(answered), questions)
	}
	nodesOf := func(q *contractv1.Question) []uint32 {
		if len(q.GetNodes()) > 0 {
			return q.GetNodes()
		}
		return req.GetNodes()
	}
	resp := &contractv1.EvaluateResponse{Generation: req.GetGeneration()}
	var narrowing contractv1.Narrowing
	at := 8
	for k, q := range req.GetFilters() {
		nodes := nodesOf(q)
		if uint64(k) >= answered {
			at += 4 * len(nodes)
			continue
		}
		plugin := slices.IndexFunc(i.plugins, func(p *contractv1.PluginDescription) bool { return p.GetName() == q.GetPlugin() })
		a, asked, left := &contractv1.FilterAnswer{}, 0, narrowing.Left(nodes)
		sets := map[uint32]uint32{} // of the module's verdicts
		for _, n := range nodes {
			v := binary.LittleEndian.Uint32(out[at:])
			at += 4
			open := asked < len(left) && left[asked] == n
			if open != (v != leftOut) {
				return nil, fmt.Errorf("pintle_evaluate: verdict %d of %s about node %d, which a predicate before it refused: %t; want %d there and only there",
					v, q.GetPlugin(), n, !open, leftOut)
			}
			if !open {
				continue
			}
			asked++
			if v != 0 && sets[v] == 0 {
				words, err := i.reasons(ctx, plugin, v)
				if err != nil {
					return nil, err
				}
				a.Reasons = append(a.Reasons, &contractv1.ReasonSet{Reasons: words})
				sets[v] = uint32(len(a.Reasons))
			}
			a.Verdicts = append(a.Verdicts, sets[v])
		}
		narrowing.Refuse(left, a.Verdicts)
		resp.Filters = append(resp.Filters, a)
	}
	at = (at + 7) &^ 7
	for k, q := range req.GetScores() {
		if uint64(len(req.GetFilters())+k) >= answered {
			break
		}
		nodes := nodesOf(q)
		a, asked, left := &contractv1.ScoreAnswer{}, 0, narrowing.Left(nodes)
		for _, n := range nodes {
			if asked < len(left) && left[asked] == n {
				a.Scores = append(a.Scores, int64(binary.LittleEndian.Uint64(out[at:])))
				asked++
			}
			at += 8
		}
		resp.Scores = append(resp.Scores, a)
	}
	return resp, nil
}
