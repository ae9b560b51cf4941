package explain

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ComparisonConfig holds what a Comparison is about. Zero bounds mean defaults.
type ComparisonConfig struct {
	// Profiles are the pairs of policies by schedulerName. Their predicates must
	// be ignorable: a plugin that is down may not look as if it refused.
	Profiles map[string]PolicyPair
	// Queue bounds the deltas and decisions that wait. Default 4096.
	Queue int
	// Keep is how many disagreements are kept. Default 256.
	Keep int
	Log  *slog.Logger
}

// PolicyPair is a policy as it is in force, and with a candidate in it, both
// over guests of their own.
type PolicyPair struct{ Present, Candidate contractv1.PolicySource }

// Comparison decides every pod that a scheduler decides once more, off its
// goroutine, twice: by the policy in force and with a candidate in it.
//
// Neither is asked with another picture than the decision had: the scheduler
// hands over its deltas and decisions in order, the comparison applies the
// deltas to a replica of its own, from which alone the guests of both sides are
// fed, and a decision is compared only at the very generation at which it was
// made. What the guests of the mirrored present policy answer is what those of
// the scheduler did, or else the decision is counted as not reproduced. Each side has
// its class cache, so that a decision asks about the nodes that changed, as in
// the cycle.
//
// The scheduler never waits: what finds no room in the queue is dropped and
// counted. After a delta was dropped, the comparison begins anew with the
// scheduler's whole replica.
type Comparison struct {
	cfg     ComparisonConfig
	log     *slog.Logger
	jobs    chan comparisonJob
	source  atomic.Pointer[contractv1.ReplicaSource]
	dropped atomic.Int64

	// replica is locked in itself.
	replica *snapshot.Replica

	// All below belongs to Run's goroutine.
	snapshot *resultcache.View
	loaded   bool
	sides    map[string]*[2]side

	book book
}

// side is one policy of a pair with its results.
type side struct {
	source  contractv1.PolicySource
	policy  contractv1.Policy
	classes map[uint32]*resultcache.Class
}

const (
	present = iota
	candidate
)

// comparisonJob is a delta or a decision.
type comparisonJob struct {
	delta    *contractv1.Delta
	decision *ComparedDecision
}

// ComparedDecision is a decision as it was made at a generation of the replica, about a
// pod of a class.
type ComparedDecision struct {
	Generation      uint64
	Class           uint32
	Profile         string
	Namespace, Name string
	UID             types.UID
	Node            string // empty: nowhere
	At              time.Time
}

var _ contractv1.ReplicaSource = (*Comparison)(nil)

// NewComparison checks its argument and starts nothing.
func NewComparison(cfg ComparisonConfig) (*Comparison, error) {
	if len(cfg.Profiles) == 0 {
		return nil, fmt.Errorf("comparison: no profile")
	}
	if cfg.Queue == 0 {
		cfg.Queue = 4096
	}
	if cfg.Keep == 0 {
		cfg.Keep = 256
	}
	if cfg.Queue < 0 || cfg.Keep < 0 {
		return nil, fmt.Errorf("comparison: a bound is negative")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Comparison{
		cfg: cfg, log: cfg.Log, jobs: make(chan comparisonJob, cfg.Queue), replica: snapshot.NewReplica(0),
		snapshot: resultcache.NewView(snapshot.NewSnapshot()), sides: map[string]*[2]side{}, book: newBook(cfg.Keep),
	}
	for name, pair := range cfg.Profiles {
		c.sides[name] = &[2]side{
			{source: pair.Present, classes: map[uint32]*resultcache.Class{}}, {source: pair.Candidate, classes: map[uint32]*resultcache.Class{}},
		}
	}
	return c, nil
}

// Replica implements ReplicaSource for the guests of both sides.
func (c *Comparison) Replica() *contractv1.Delta { return c.replica.Full() }

// Begin has the comparison follow a source, which hands it deltas and decisions.
func (c *Comparison) Begin(source contractv1.ReplicaSource) { c.source.Store(&source) }

// End has it follow no source, unless it follows another one by now.
func (c *Comparison) End(source contractv1.ReplicaSource) {
	if now := c.source.Load(); now != nil && *now == source {
		c.source.CompareAndSwap(now, nil)
	}
}

// Compares reports whether decisions about pods of a profile are compared.
func (c *Comparison) Compares(profile string) bool { return c.sides[profile] != nil }

// Waiting is how many deltas and decisions wait.
func (c *Comparison) Waiting() int { return len(c.jobs) }

// OfferDelta hands over a delta. It never waits: one that is dropped shows as a gap.
func (c *Comparison) OfferDelta(delta *contractv1.Delta) { c.offer(comparisonJob{delta: delta}) }

// OfferDecision hands over a decision. It never waits: one that is dropped is counted.
func (c *Comparison) OfferDecision(decision *ComparedDecision) {
	c.offer(comparisonJob{decision: decision})
}

func (c *Comparison) offer(j comparisonJob) {
	select {
	case c.jobs <- j:
	default:
		if j.decision != nil {
			c.dropped.Add(1)
		} // a delta that is missing shows as a gap
	}
}

// Run compares until ctx ends.
func (c *Comparison) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case j := <-c.jobs:
			var err error
			if j.delta != nil {
				err = c.follow(ctx, j.delta)
			} else {
				err = c.compare(ctx, j.decision)
			}
			if err != nil && ctx.Err() == nil {
				c.book.fail(err)
			}
		}
	}
}

// follow brings replica, snapshot and guests to a delta.
func (c *Comparison) follow(ctx context.Context, delta *contractv1.Delta) error {
	at := c.replica.Generation
	switch {
	case c.loaded && delta.Generation <= at:
		return nil
	case c.loaded && delta.Generation == at+1:
		c.replica.Advance(delta.Operations)
	default:
		s := c.source.Load()
		if s == nil {
			return nil
		}
		delta = (*s).Replica()
		c.replica.Reset(delta)
		c.snapshot = resultcache.NewView(snapshot.NewSnapshot())
		for _, pair := range c.sides {
			for i := range pair {
				pair[i].classes = map[uint32]*resultcache.Class{}
			}
		}
		c.loaded = true
	}
	c.snapshot.Follow(delta.Operations)
	for _, op := range delta.Operations {
		if gone, ok := op.Op.(*contractv1.Operation_ClassRemove); ok {
			for _, pair := range c.sides {
				delete(pair[present].classes, gone.ClassRemove)
				delete(pair[candidate].classes, gone.ClassRemove)
			}
		}
	}
	for _, pair := range c.sides {
		for i := range pair {
			if policy := pair[i].source.Policy(); policy != nil {
				if policy != pair[i].policy {
					pair[i].policy, pair[i].classes = policy, map[uint32]*resultcache.Class{}
				}
				if err := policy.Apply(ctx, delta); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// ready reports whether a side's guests have the replica.
func (s *side) ready(ctx context.Context) bool {
	if s.policy == nil {
		return false
	}
	preparing, ok := s.policy.(contractv1.Preparing)
	return !ok || preparing.Prepared(ctx)
}

// decide brings a side's results for a class up to date; an error means that
// some plugin did not answer.
func (s *side) decide(ctx context.Context, id uint32, sh *snapshot.Shape, snap *resultcache.View) (*resultcache.Class, error) {
	c := s.classes[id]
	if c == nil {
		c = resultcache.NewClass(id, sh)
		s.classes[id] = c
	}
	if err := c.Update(ctx, s.policy, snap); err != nil {
		return nil, err
	}
	if len(c.Feasible()) > 0 {
		if _, err := c.UpdateTotals(ctx); err != nil {
			c.Forget()
			return nil, err
		}
	}
	if name, silent := c.Verdicts().FailedPredicate(); silent {
		return nil, fmt.Errorf("predicate %s did not answer", name)
	}
	return c, c.Trouble()
}

func (c *Comparison) compare(ctx context.Context, d *ComparedDecision) error {
	pair := c.sides[d.Profile]
	pod := c.replica.Classes[d.Class]
	if !c.loaded || d.Generation != c.replica.Generation || pod == nil || !pair[present].ready(ctx) || !pair[candidate].ready(ctx) {
		c.book.skip()
		return nil
	}
	var decided [2]*resultcache.Class
	sh := &snapshot.Shape{Pod: &convert.Pod{Message: pod, Claims: convert.UsesClaims(pod)}}
	for i := range pair {
		var err error
		if decided[i], err = pair[i].decide(ctx, d.Class, sh, c.snapshot); err != nil {
			if i == candidate {
				return fmt.Errorf("candidate: %w", err)
			}
			return fmt.Errorf("mirror of the present version: %w", err)
		}
	}
	names := c.snapshot.Names()
	if !leadsTo(decided[present], d.Node, names) {
		c.book.unreproduced()
		return nil
	}
	c.book.add(difference(d, decided[present], decided[candidate], names))
	return nil
}

// leadsTo reports whether a class's results lead to a node, or nowhere.
func leadsTo(c *resultcache.Class, node string, names []string) bool {
	if len(c.Feasible()) == 0 {
		return node == ""
	}
	for _, n := range c.Totals().Tops() {
		if names[n] == node {
			return true
		}
	}
	return false
}
