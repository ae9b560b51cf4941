package plugin

import (
	"context"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/observe"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A look at the clock takes longer than a module needs to answer about one node. So
// most of such questions are not timed: one that used up no slice of fuel took less
// than 0.1 ms, whatever the module is (meter.go), and is counted with the time of the
// next one that is. A question that did use up a slice was timed on the way.
const (
	// timedEvery: of so many brief questions one is timed.
	timedEvery = 64
	// briefNodes may be asked about, and briefAnswers given, by a brief question.
	briefNodes, briefAnswers = 4, 64
)

// briefly counts the brief questions since the last one that was timed.
type briefly struct {
	asked   atomic.Int64
	ended   [len(endings)]atomic.Int64 // of those, with another code than success
	typical atomic.Int64               // what the last one took that was timed; 0: none was
}

// untimed reports whether the next brief question need not be timed, which is so of
// a plugin alone that nothing is wrong with.
func (s *stats) untimed() bool {
	return s.briefly.asked.Load() < timedEvery-1 && s.briefly.typical.Load() > 0 && !s.circuit.stirred.Load()
}

// brief counts a question that was not timed.
func (s *stats) brief(code contractv1.Code) {
	s.briefly.asked.Add(1)
	if code != contractv1.Code_SUCCESS {
		for k := range endings {
			if endings[k] == code {
				s.briefly.ended[k].Add(1)
			}
		}
	}
}

// timed notes what a brief question took, which those before it are counted with.
func (s *stats) timed(d time.Duration) {
	s.briefly.typical.Store(int64(max(d, 1)))
	s.settle()
}

// settle counts what was not timed among the rest. Whoever reads calls it first.
func (s *stats) settle() {
	b := &s.briefly
	if b.asked.Load() == 0 {
		return
	}
	d := b.typical.Load()
	var ended [len(endings)]int64
	for k := range ended { // before the whole, of which they are
		ended[k] = b.ended[k].Swap(0)
	}
	n, at := b.asked.Swap(0), bucketOf(uint64(d))
	s.calls.Add(n)
	s.nanoseconds.Add(n * d)
	s.buckets[at].Add(uint64(n))
	for k, n := range ended {
		if n > 0 {
			o := s.other(k)
			o.nanoseconds.Add(n * d)
			o.buckets[at].Add(uint64(n))
		}
	}
}

// seat is what a place knows of the guest that the unit has.
type seat struct {
	started uint64      // which guest of the unit
	quick   guest.Quick // nil: the guest is none
	index   int
	stats   *stats
	code    contractv1.Code // of verdict
	verdict uint32          // the last one that was not 0, whose words are known
}

// sit finds the place's plugin in the guest at hand; nil: it is not there. The
// unit's mu is held, and it has a guest.
func (at *place) sit() *seat {
	u, s := at.unit, &at.seat
	if s.started == u.started && s.stats != nil {
		return s
	}
	i, ok := u.index[at.name]
	if !ok {
		return nil
	}
	q, _ := u.guest.(guest.Quick)
	*s = seat{started: u.started, quick: q, index: i, stats: u.counted(at.name)}
	return s
}

// atOnce returns the seat of a module that can be asked at once and without a look
// at the clock; nil: it is to be asked like every other guest. The unit's mu is held.
func (at *place) atOnce(ctx context.Context, generation uint64) *seat {
	u := at.unit
	if u.guest == nil || u.catching != nil || u.fed != generation || len(u.queue) > 0 {
		return nil
	}
	s := at.sit()
	if s == nil || s.quick == nil || !s.quick.Quickly() || !s.stats.untimed() || observe.Sampled(ctx) || ctx.Err() != nil {
		return nil
	}
	return s
}

// filterOne asks a module about one node; not done: nothing happened.
func (at *place) filterOne(ctx context.Context, generation uint64, class uint32, nodes, out []uint32) (done bool, err error) {
	u := at.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	s := at.atOnce(ctx, generation)
	if s == nil {
		return false, nil
	}
	u.asking = ctx
	defer u.asked()
	g := s.quick
	verdict, err := g.FilterOne(s.index, class, nodes[0])
	code := contractv1.Code_SUCCESS
	if err == nil {
		if out[0] = verdict; verdict != 0 {
			if verdict != s.verdict {
				err = g.LearnAll(s.index, out)
				if s.verdict, s.code = 0, filtered(out, func(v uint32) bool { return u.guest.Unresolvable(s.index, v) }); err == nil {
					s.verdict = verdict
				}
			}
			code = s.code
		}
	}
	return true, u.askedOne(s, at.name, code, err)
}

// scoreOne asks a module about one node; check may refuse the answer.
func (at *place) scoreOne(ctx context.Context, generation uint64, class uint32, nodes []uint32, out []int64, check func() error) (done bool, err error) {
	u := at.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	s := at.atOnce(ctx, generation)
	if s == nil {
		return false, nil
	}
	u.asking = ctx
	defer u.asked()
	score, err := s.quick.ScoreOne(s.index, class, nodes[0])
	if err == nil {
		out[0] = score
		if check != nil {
			err = check()
		}
	}
	return true, u.askedOne(s, at.name, contractv1.Code_SUCCESS, err)
}

// askedOne counts a question that was asked at once.
func (u *unit) askedOne(s *seat, name string, code contractv1.Code, err error) error {
	if err == nil && !s.quick.UsedSlice() {
		s.stats.brief(code)
		return nil
	}
	now := time.Now()
	took := s.quick.Elapsed(now)
	return u.concluded(s.stats, name, code, now, took, took, err)
}
