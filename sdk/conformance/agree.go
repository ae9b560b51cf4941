package conformance

import (
	"context"
	"fmt"

	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Runner is one way to ask a bundle: its source, its module, its process.
type Runner struct {
	Name string
	Open Open
}

// Agree asks all runners about the same random clusters as they change and
// returns the first difference, with its seed. The first runner says what is right.
func Agree(ctx context.Context, runners []Runner, o Options) error {
	s := &suite{Options: o.withDefaults()}
	var opened []artifact.Artifact
	defer func() {
		for _, a := range opened {
			_ = a.Close(ctx) // the suite says so of each build
		}
	}()
	for _, r := range runners {
		a, err := r.Open(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		opened = append(opened, a)
		if err := s.configure(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
	}
	if len(opened) < 2 {
		return nil
	}
	if s.plugins = opened[0].Plugins(); !s.asked() {
		return nil // there is nothing that a replica decides
	}
	for k := range s.Seeds {
		w := s.world(k)
		for step := range 6 {
			delta := w.Step()
			if step == 0 {
				delta = w.Whole()
			}
			if err := s.together(ctx, runners, opened, delta, w.Nodes()); err != nil {
				return fmt.Errorf("seed %d, step %d: %w", s.Seed+uint64(k), step, err)
			}
		}
	}
	return nil
}

// together applies one delta everywhere and compares the answers.
func (s *suite) together(ctx context.Context, runners []Runner, opened []artifact.Artifact, delta *contractv1.Delta, nodes []uint32) error {
	var want []answer
	for i, a := range opened {
		if err := a.Apply(ctx, delta); err != nil {
			return fmt.Errorf("%s: %w", runners[i].Name, err)
		}
		got, err := s.all(ctx, a, nodes)
		if err != nil {
			return fmt.Errorf("%s: %w", runners[i].Name, err)
		}
		if i == 0 {
			want = got
		} else if diff := differ(want, got); diff != "" {
			return fmt.Errorf("%s and %s: %s", runners[0].Name, runners[i].Name, diff)
		}
	}
	return nil
}
