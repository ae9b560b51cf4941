package conformance

import (
	"context"
	"fmt"
	"time"

	"pintle.dev/pintle/sdk/artifact"
)

// clocks are times at which the same is asked: some hours of some days.
var clocks = func() (list []time.Time) {
	first := time.Date(2030, time.January, 7, 10, 30, 15, 0, time.UTC)
	for _, after := range []time.Duration{0, time.Second, 40 * time.Minute, 5 * time.Hour, 13 * time.Hour, 75 * time.Hour, 40 * 24 * time.Hour, 400 * 24 * time.Hour} {
		list = append(list, first.Add(after))
	}
	return list
}()

// timed are the answers at one time, and when those of each plugin end.
type timed struct {
	at      time.Time
	answers []answer
	until   []time.Time // parallel
}

// timeless asks the same at several times. A plugin that is not described with expires has
// one answer: the host keeps it. One that is has it until the time that it said. What
// an instance was asked before makes no difference.
func timeless(ctx context.Context, s *suite, a artifact.Artifact) error {
	walker, ok := a.(artifact.Clocked)
	if !ok {
		return errSkip{"a process reads the clock of the machine; check the module"}
	}
	seeds := min(s.Seeds, 4)
	asked := make([][]timed, seeds)
	for _, at := range clocks {
		fresh, err := s.open(ctx)
		if err != nil {
			return err
		}
		err = s.configure(ctx, fresh)
		for k := 0; k < seeds && err == nil; k++ {
			var t timed
			if t, err = s.askedAt(ctx, fresh, k, at); err == nil {
				asked[k] = append(asked[k], t)
			}
		}
		if closed := fresh.Close(ctx); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
	}
	for k, list := range asked {
		seed := s.Seed + uint64(k)
		for i := range list {
			for j := range list[i+1:] {
				if err := s.holds(&list[i], &list[i+1+j]); err != nil {
					return fmt.Errorf("seed %d: %w", seed, err)
				}
			}
		}
		walker.At(clocks[0])
		if err := a.Apply(ctx, s.world(k).Whole()); err != nil {
			return err
		}
		for _, want := range list {
			walker.At(want.at)
			got, err := s.raw(ctx, a, s.world(k).Nodes())
			if err != nil {
				return err
			}
			if diff := differ(want.answers, got); diff != "" {
				return fmt.Errorf("seed %d, at %s: %s (the second by an instance that was asked at other times before)", seed, want.at.Format(time.RFC3339), diff)
			}
		}
	}
	return nil
}

// askedAt asks all plugins about a cluster at a time.
func (s *suite) askedAt(ctx context.Context, a artifact.Artifact, k int, at time.Time) (t timed, err error) {
	a.(artifact.Clocked).At(at)
	w := s.world(k)
	if err := a.Apply(ctx, w.Whole()); err != nil {
		return t, err
	}
	t.at, t.until = at, make([]time.Time, len(s.plugins))
	for i, p := range s.plugins {
		one, err := ask(ctx, a, s.plugins[i:i+1], w.Nodes(), false)
		if err != nil {
			return t, err
		}
		if p.GetExpires() {
			if t.until[i], err = a.(artifact.Expirer).Until(ctx, i); err != nil {
				return t, fmt.Errorf("%s: %w", p.GetName(), err)
			}
		}
		t.answers = append(t.answers, one...)
	}
	return t, nil
}

// holds compares the answers at two times, the first one first.
func (s *suite) holds(t, later *timed) error {
	for i, p := range s.plugins {
		until := t.until[i]
		if p.GetExpires() && !until.IsZero() && !until.After(later.at) {
			continue
		}
		diff := differ(t.answers[i:i+1], later.answers[i:i+1])
		if diff == "" {
			continue
		}
		between := fmt.Sprintf("%s at %s and %s", diff, t.at.Format(time.RFC3339), later.at.Format(time.RFC3339))
		if !p.GetExpires() {
			return fmt.Errorf("%s: it reads the clock, and the host keeps its answers; declare Expires, and say until when they hold", between)
		}
		if until.IsZero() {
			return fmt.Errorf("%s: the first was to hold for ever", between)
		}
		return fmt.Errorf("%s: the first was to hold until %s", between, until.Format(time.RFC3339))
	}
	return nil
}
