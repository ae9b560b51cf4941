package conformance

import (
	"context"
	"fmt"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// removed: nodes and classes that a delta removes, and those that a whole replica
// does not have, are not there any more.
func removed(ctx context.Context, s *suite, a artifact.Artifact) error {
	const second = Class + 1
	w := s.world(0)
	whole, nodes := w.Whole(), w.Nodes()
	further := w.Absent() // a node that a replica after this one lacks
	first := w.Whole()
	first.Generation = 1
	first.Operations = append(first.Operations,
		nodeSet(further, whole.Operations[0].GetNodeSet().GetNode()),
		&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: second, Pod: w.class}}})
	if err := a.Apply(ctx, first); err != nil {
		return err
	}
	if err := s.each(ctx, a, func(name string, ask question) error {
		if err := ask(second, append(w.Nodes(), further)); err != nil {
			return fmt.Errorf("%s about a class and a node that were added: %w", name, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := a.Apply(ctx, &contractv1.Delta{Generation: 2, Operations: []*contractv1.Operation{
		{Op: &contractv1.Operation_NodeRemove{NodeRemove: nodes[0]}},
		{Op: &contractv1.Operation_ClassRemove{ClassRemove: second}},
	}}); err != nil {
		return err
	}
	if err := s.gone(ctx, a, nodes[1:], nodes[0], second, "that was removed"); err != nil {
		return err
	}
	onIt := &contractv1.Delta{Generation: 3, Operations: []*contractv1.Operation{podAdd(nodes[0], &contractv1.Pod{Uid: "late"})}}
	if err := refusal(a.Apply(ctx, onIt), artifact.StatusMalformed, "a pod that is added to a node that was removed"); err != nil {
		return err
	}
	again := w.Whole()
	again.Generation = 4
	again.Operations = append(again.Operations,
		nodeSet(further, whole.Operations[0].GetNodeSet().GetNode()),
		&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: second, Pod: w.class}}})
	if err := a.Apply(ctx, again); err != nil {
		return err
	}
	whole.Generation = 5
	if err := a.Apply(ctx, whole); err != nil {
		return err
	}
	return s.gone(ctx, a, nodes, further, second, "that a whole replica (reset) does not have")
}

// gone asks about a node and a class that are not there.
func (s *suite) gone(ctx context.Context, a artifact.Artifact, nodes []uint32, node, class uint32, why string) error {
	return s.each(ctx, a, func(name string, ask question) error {
		if err := ask(Class, nodes); err != nil {
			return fmt.Errorf("%s about what is there: %w", name, err)
		}
		if err := refusal(ask(Class, []uint32{node}), artifact.StatusNode, fmt.Sprintf("%s about a node %s", name, why)); err != nil {
			return err
		}
		return refusal(ask(class, nodes), artifact.StatusClass, fmt.Sprintf("%s about a class %s", name, why))
	})
}

// question asks one plugin about a class and nodes.
type question func(class uint32, nodes []uint32) error

// each hands do every predicate and priority, up to the first error.
func (s *suite) each(ctx context.Context, a artifact.Artifact, do func(name string, ask question) error) error {
	for i, p := range s.plugins {
		var ask question
		switch p.GetKind() {
		case sdk.KindPredicate:
			ask = func(class uint32, nodes []uint32) error {
				_, err := a.Filter(ctx, i, class, nodes)
				return err
			}
		case sdk.KindPriority:
			ask = func(class uint32, nodes []uint32) error {
				_, err := a.Score(ctx, i, class, nodes)
				return err
			}
		default:
			continue
		}
		if err := do(p.GetName(), ask); err != nil {
			return err
		}
	}
	return nil
}

// idle: a plugin that says that it has nothing to say about a class lets it pass on
// all nodes, or scores it 0 on all.
func idle(ctx context.Context, s *suite, a artifact.Artifact) error {
	asked := a.(artifact.Idler)
	for k := range s.Seeds {
		w := s.world(k)
		whole := w.Whole()
		whole.Generation = uint64(k + 1)
		if err := a.Apply(ctx, whole); err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		said, err := s.raw(ctx, a, w.Nodes())
		if err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		for i, p := range s.plugins {
			if !answers(p.GetKind()) {
				continue
			}
			nothing, err := asked.Idle(ctx, i, Class)
			if err != nil {
				return fmt.Errorf("seed %d: %s: %w", s.Seed+uint64(k), p.GetName(), err)
			}
			if !nothing {
				continue
			}
			for _, n := range w.Nodes() {
				if reasons := said[i].reasons[n]; len(reasons) > 0 {
					return fmt.Errorf("seed %d: %s says that it lets the class pass everywhere (pintle_idle), and says %s of node %d", s.Seed+uint64(k), p.GetName(), words(reasons), n)
				}
				if score := said[i].scores[n]; score != 0 {
					return fmt.Errorf("seed %d: %s says that it gives the class 0 everywhere (pintle_idle), and scores node %d %d", s.Seed+uint64(k), p.GetName(), n, score)
				}
			}
		}
	}
	return nil
}

// buffers: what the host frees is used again.
func buffers(ctx context.Context, s *suite, a artifact.Artifact) error {
	memory := a.(artifact.Allocator)
	sizes := []int{1 << 10, 100 << 10, 1 << 20}
	round := func(n int) error {
		for range n {
			var held []uint32
			for _, size := range sizes {
				pointer, err := memory.Allocate(ctx, size)
				if err != nil {
					return err
				}
				held = append(held, pointer)
			}
			for _, pointer := range held {
				if err := memory.Free(ctx, pointer); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := round(5); err != nil {
		return err
	}
	settled := a.MemoryBytes()
	const rounds = 40
	if err := round(rounds); err != nil {
		return fmt.Errorf("after %d bytes of memory: %w", a.MemoryBytes(), err)
	}
	if now := a.MemoryBytes(); now > 2*settled+8<<20 {
		return fmt.Errorf("%d bytes before %d rounds of pintle_alloc and pintle_free of 1.4 MB, %d after them: what is freed is not used again", settled, rounds, now)
	}
	return nil
}
