package sdk

import (
	"fmt"
	"unsafe"
)

// maxEvaluated bounds what one evaluation answers.
const maxEvaluated = 1 << 20

// allNodes stands for the request's nodes, leftOut for a verdict about a node that
// a filter before refused.
const allNodes, leftOut = ^uint32(0), ^uint32(0)

// Evaluate answers several questions about one class in one call, a delta first,
// as pintle_evaluate of ABI.md does:
//
//	request: class, filters, scores, n, n nodes, and a question each, filters
//	         first: plugin, m, m nodes, or plugin, 2^32-1 for the n nodes
//	out:     how many questions were answered; from byte 8 on the verdicts of each
//	         filter, parallel to its nodes, and from the next multiple of 8 on the
//	         scores of each
//
// A node that a filter refuses is left out of the filters after it, which say
// 2^32-1 of it, and of all scores. out must have room for all. The first question
// that cannot be answered ends the evaluation, which is no error: asked alone it
// says why. An error means that nothing was answered, and that the replica is in no
// defined state if there was a delta.
func (g *Guest) Evaluate(delta []byte, request []uint32, out []uint64) error {
	if len(delta) > 0 {
		if err := g.Apply(delta); err != nil {
			return err
		}
	}
	e := &g.evaluation
	if err := e.take(request, out); err != nil {
		return err
	}
	if err := g.askAbout(e.class); err != nil {
		return err
	}
	e.refused.reset(len(g.cluster.nodes))
	g.answer(request, out)
	return nil
}

// answer answers the questions of the evaluation, up to the first that fails.
func (g *Guest) answer(request []uint32, out []uint64) {
	// A plugin that panics leaves out[0] at its question.
	done := false
	defer func() {
		if !done {
			_ = recover()
		}
	}()
	g.answerAll(request, out)
	done = true
}

func (g *Guest) answerAll(request []uint32, out []uint64) {
	e := &g.evaluation
	verdicts := viewOf[uint32](out[1:])
	var at int // in verdicts
	for k := range e.questions {
		q := &e.questions[k]
		out[0] = uint64(k)
		if k < e.filters {
			p, err := g.plugin(q.plugin, KindPredicate)
			if err != nil || !g.evaluateFilter(p, q.nodes(request), verdicts[at:at+q.n]) {
				return
			}
			p.until = g.clock.until
			at += q.n
			continue
		}
		if k == e.filters {
			at = 1 + (at+1)/2 // from here on in out
		}
		p, err := g.plugin(q.plugin, KindPriority)
		if err != nil || !g.evaluateScore(p, q.nodes(request), viewOf[int64](out[at:at+q.n])) {
			return
		}
		p.until = g.clock.until
		at += q.n
	}
	out[0] = uint64(len(e.questions))
}

// evaluation is the request at hand; its memory is used again.
type evaluation struct {
	class     uint32
	filters   int // of the questions
	questions []question
	refused   nodeSet
	left      []uint32
	verdicts  []uint32
	scores    []int64
}

// question has no pointers, see single.
type question struct {
	plugin   int
	first, n int // its nodes, in the request
}

func (q *question) nodes(request []uint32) []uint32 { return request[q.first : q.first+q.n] }

// take decodes a request and compares it with the room for its answers.
func (e *evaluation) take(request []uint32, out []uint64) error {
	if len(request) < 4 || len(request)-4 < int(request[3]) || int(request[3]) < 0 {
		return fmt.Errorf("%w: evaluation", ErrDelta)
	}
	filters, scores, shared := request[1], request[2], request[4:4+request[3]]
	e.class, e.filters, e.questions = request[0], int(filters), e.questions[:0]
	if uint64(filters)+uint64(scores) > uint64(len(request)) {
		return fmt.Errorf("%w: evaluation of %d and %d questions", ErrDelta, filters, scores)
	}
	var verdicts, scored int
	rest := request[4+len(shared):]
	for k := range int(filters + scores) {
		if len(rest) < 2 {
			return fmt.Errorf("%w: question %d", ErrDelta, k)
		}
		q := question{plugin: int(int32(rest[0])), first: 4, n: len(shared)}
		n := rest[1]
		if rest = rest[2:]; n != allNodes {
			if uint64(n) > uint64(len(rest)) {
				return fmt.Errorf("%w: question %d", ErrDelta, k)
			}
			q.first, q.n = len(request)-len(rest), int(n)
			rest = rest[n:]
		}
		if k < e.filters {
			verdicts += q.n
		} else {
			scored += q.n
		}
		if verdicts+scored > maxEvaluated {
			return fmt.Errorf("%w: evaluation of more than %d answers", ErrDelta, maxEvaluated)
		}
		e.questions = append(e.questions, q)
	}
	if len(out) < 1+(verdicts+1)/2+scored {
		return fmt.Errorf("%w: no room for %d verdicts and %d scores", ErrDelta, verdicts, scored)
	}
	return nil
}

// leave collects the nodes of a question that no filter refused; it returns the
// question's own where that is all of them.
func (e *evaluation) leave(nodes []uint32) []uint32 {
	if !e.refused.any {
		return nodes
	}
	e.left = e.left[:0]
	for _, n := range nodes {
		if !e.refused.has(n) {
			e.left = append(e.left, n)
		}
	}
	return e.left
}

func (g *Guest) evaluateFilter(p *servedState, nodes, out []uint32) bool {
	e := &g.evaluation
	left := e.leave(nodes)
	if len(left) == len(nodes) {
		if g.filter(p, e.class, left, out) != nil {
			return false
		}
		for k, v := range out {
			if v != 0 {
				e.refused.add(left[k])
			}
		}
		return true
	}
	if cap(e.verdicts) < len(left) {
		e.verdicts = make([]uint32, len(left))
	}
	e.verdicts = e.verdicts[:len(left)]
	if g.filter(p, e.class, left, e.verdicts) != nil {
		return false
	}
	at := 0
	for k, n := range nodes {
		if at == len(left) || left[at] != n {
			out[k] = leftOut
			continue
		}
		if out[k] = e.verdicts[at]; out[k] != 0 {
			e.refused.add(n)
		}
		at++
	}
	return true
}

func (g *Guest) evaluateScore(p *servedState, nodes []uint32, out []int64) bool {
	e := &g.evaluation
	left := e.leave(nodes)
	if len(left) == len(nodes) {
		return g.score(p, e.class, left, out) == nil
	}
	if cap(e.scores) < len(left) {
		e.scores = make([]int64, len(left))
	}
	e.scores = e.scores[:len(left)]
	if g.score(p, e.class, left, e.scores) != nil {
		return false
	}
	at := 0
	for k, n := range nodes {
		if at < len(left) && left[at] == n {
			out[k] = e.scores[at]
			at++
		}
	}
	return true
}

func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// nodeSet is a set of node indexes that costs nothing to empty.
type nodeSet struct {
	any   bool
	tick  uint32
	marks []uint32
}

func (s *nodeSet) reset(nodes int) {
	s.any = false
	if s.tick++; s.tick == 0 {
		s.marks, s.tick = nil, 1
	}
	for len(s.marks) < nodes {
		s.marks = append(s.marks, 0)
	}
}

func (s *nodeSet) add(n uint32) { s.any, s.marks[n] = true, s.tick }

func (s *nodeSet) has(n uint32) bool { return int(n) < len(s.marks) && s.marks[n] == s.tick }

// viewOf looks at words as at numbers of another type; one of 4 bytes has two in each.
func viewOf[T uint32 | int64](words []uint64) []T {
	var t T
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8/int(unsafe.Sizeof(t)))
}
