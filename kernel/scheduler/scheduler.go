package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Scheduler is one scheduler for the profiles it was given.
type Scheduler struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	clock clock.WithTicker

	inbox   chan event
	binds   chan bindRequest
	results chan bindResult
	// preempted is told when a pod's victims were evicted; evicting bounds how many
	// are at once.
	preempted chan preemption
	evicting  chan struct{}
	wake      chan struct{} // a policy changed
	// inspections are questions about the cycle's state, which it answers
	// between two decisions.
	inspections chan func(context.Context)
	started     atomic.Bool

	followMu  sync.Mutex
	followers atomic.Pointer[[]*Comparison]

	replica *replica
	record  *record
	counts  *queueMetrics
	whole   *wholeNodes // nil: nobody needs them
	report  *reporter

	// All below belongs to the cycle's goroutine.
	random     *rand.Rand
	snapshot   *snapshot
	queue      *queue
	pods       map[types.UID]*podEntry
	assumed    map[types.UID]*podEntry
	shapes     map[[32]byte]*shape
	classes    []*class
	classBytes int // of their shapes
	lastClass  uint32
	decisions  uint64
	profiles   map[string]*profile
	unsynced   int
	swept      time.Time
	troubled   time.Time
	unheard    []types.UID // what was told of these pods did not arrive
	eager      bool        // flush without waiting for a decision
	counted    bool        // Metrics know how much there is

	// Events that may help pods which fit nowhere (events.go).
	events    []clusterEvent
	eventAt   map[eventKey]int
	eventSeq  uint64
	lost      uint64    // number of the last event that was not kept; 0: none
	hintsRest time.Time // they are not looked at before
	deciding  bool      // about a pod that is nowhere meanwhile, and may have to hear of them

	// Of plugins at points of the cycle beside predicates and priorities.
	pointed    bool // a profile has any
	waiting    map[types.UID]*held
	reviewed   time.Time
	unreserves []unreserve
	presumed   map[objectRef]assumption // objects that reserve plugins assume
	slots      chan struct{}            // bindings through plugins at once
	bindings   sync.WaitGroup
}

// profile is a policy source with what was last seen of it.
type profile struct {
	source PolicySource
	policy Policy
	at     pointPolicy // what policy has beside predicates and priorities
	// next is a policy that is still being fed; policy decides until it is not.
	next Policy
	// turned: policy is another than at was made of.
	turned  bool
	metrics *profileMetrics
}

var _ ReplicaSource = (*Scheduler)(nil)

// New checks its arguments and starts nothing. The defaults of cfg are filled in.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	seed := cfg.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	s := &Scheduler{
		cfg: cfg, deps: deps, log: deps.Log, clock: deps.Clock,
		inbox:     make(chan event, 1024),
		binds:     make(chan bindRequest, cfg.BindWorkers),
		results:   make(chan bindResult, 4*cfg.BindWorkers),
		preempted: make(chan preemption, evictions), evicting: make(chan struct{}, evictions), counts: deps.Metrics.ofQueue(),
		wake: make(chan struct{}, 1), inspections: make(chan func(context.Context)),
		replica: newReplica(cfg.FirstGeneration), record: newRecord(cfg.Explain), whole: newWholeNodes(deps.Extenders), report: newReporter(&deps),
		random:   rand.New(rand.NewPCG(seed, seed^0x9e3779b97f4a7c15)),
		snapshot: newSnapshot(), queue: newQueue(&cfg),
		pods: map[types.UID]*podEntry{}, assumed: map[types.UID]*podEntry{},
		waiting: map[types.UID]*held{}, presumed: map[objectRef]assumption{}, slots: make(chan struct{}, cfg.BindWorkers),
		shapes: map[[32]byte]*shape{}, profiles: map[string]*profile{},
		unsynced: 2 + len(deps.Objects),
	}
	s.snapshot.suppose, s.queue.came, s.queue.waits = s.suppose, s.counts.came, s.counts.waits
	for name, source := range deps.Profiles {
		s.profiles[name] = &profile{source: source, metrics: deps.Metrics.profile(name)}
	}
	return s, nil
}

// Replica implements ReplicaSource: everything the plugins were told so far.
// Safe for concurrent use, before, while and after Run.
func (s *Scheduler) Replica() *contractv1.Delta { return s.replica.full() }

// Run schedules until ctx ends and returns when all its goroutines have. It can
// be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("scheduler: run was called twice")
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer func() {
		cancel()
		group.Wait()
		s.bindings.Wait()
		s.counts.rest()
	}()
	reflect := func(kind string, lw cache.ListerWatcher, object runtime.Object, store cache.ReflectorStore) {
		r := cache.NewReflectorWithOptions(lw, object, store, cache.ReflectorOptions{Name: "scheduler/" + kind})
		group.Go(func() { r.RunWithContext(ctx) })
	}
	reflect("Pod", s.deps.Pods, &v1.Pod{}, newPodInlet(ctx, s.inbox))
	reflect("Node", s.deps.Nodes, &v1.Node{}, newNodeInlet(ctx, s.inbox, s.whole))
	for kind, lw := range s.deps.Objects {
		reflect(kind, lw, objectTypes[kind], newObjectInlet(ctx, s.inbox))
	}
	for _, p := range s.profiles {
		group.Go(func() { s.watchPolicy(ctx, p.source.Changed()) })
	}
	workers := s.cfg.BindWorkers
	if s.together() {
		workers = min(workers, gatherers)
	}
	for range workers {
		group.Go(func() { s.bindWorker(ctx) })
	}
	if s.report.status != nil {
		for i := range s.report.patches {
			group.Go(func() { s.report.runPatches(ctx, &s.report.patches[i]) })
		}
	}
	s.loop(ctx)
	return nil
}

func (s *Scheduler) watchPolicy(ctx context.Context, changed <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
	}
}

// flushAt bounds the operations that wait for a decision to need them.
const flushAt = 256

// loop is the cycle: take in what happened, schedule one pod, again.
func (s *Scheduler) loop(ctx context.Context) {
	for ctx.Err() == nil {
		s.drain()
		select {
		case f := <-s.inspections:
			f(ctx)
		default:
		}
		now := s.clock.Now()
		s.sweep(now)
		s.counts.hold(s.queue)
		if s.unsynced == 0 {
			prepared, err := s.prepare(ctx)
			if err != nil {
				return
			}
			if !prepared {
				s.wait(ctx, now)
				continue
			}
			s.settleEvents(ctx, now)
			if s.pointed {
				s.atPoints(ctx, now)
			}
			if p := s.queue.pop(now); p != nil {
				s.schedule(ctx, p)
				continue
			}
			if s.eager || len(s.snapshot.pending) >= flushAt || len(s.unreserves) > 0 {
				s.eager = false
				if s.flush(ctx) != nil {
					return
				}
			}
		}
		s.wait(ctx, now)
	}
}

// drain takes in what has arrived, without waiting.
func (s *Scheduler) drain() {
	for range len(s.inbox) {
		s.take(<-s.inbox)
	}
	for range len(s.results) {
		s.bound(<-s.results)
	}
	for range len(s.preempted) {
		s.settlePreemption(<-s.preempted)
	}
	for range len(s.report.lost) {
		s.untold(<-s.report.lost)
	}
	select {
	case <-s.wake:
		s.policyChanged()
	default:
	}
}

// sized counts what the scheduler knows.
func (s *Scheduler) sized() {
	if s.counted = true; s.deps.Metrics == nil {
		return
	}
	pods := 0
	for _, e := range s.snapshot.byName {
		pods += len(e.pods)
	}
	s.deps.Metrics.sizes(s.snapshot.count, pods, len(s.assumed))
	s.deps.Metrics.tracks(s.events)
}

// wait blocks until something arrives or is due.
func (s *Scheduler) wait(ctx context.Context, now time.Time) {
	var due <-chan time.Time
	at, timed := s.queue.next()
	if len(s.assumed) > 0 || len(s.queue.pool) > 0 || !s.counted {
		if next := s.swept.Add(sweepEvery); !timed || next.Before(at) {
			at, timed = next, true
		}
	}
	if len(s.events) > 0 && (!timed || s.hintsRest.Before(at)) {
		at, timed = s.hintsRest, true
	}
	if due, waits := s.reviewDue(); waits && (!timed || due.Before(at)) {
		at, timed = due, true
	}
	if timed {
		timer := s.clock.NewTimer(max(at.Sub(now), time.Millisecond))
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case e := <-s.inbox:
		s.take(e)
	case r := <-s.results:
		s.bound(r)
	case r := <-s.preempted:
		s.settlePreemption(r)
	case uid := <-s.report.lost:
		s.untold(uid)
	case <-s.wake:
		s.policyChanged()
	case f := <-s.inspections:
		f(ctx)
	case <-due:
	}
}

const sweepEvery = time.Second

// sweep ends reservations that were never confirmed and empties the pool of
// what has been there for too long.
func (s *Scheduler) sweep(now time.Time) {
	if now.Sub(s.swept) < sweepEvery {
		return
	}
	s.swept = now
	s.sized()
	for _, p := range s.assumed {
		if !p.boundAt.IsZero() && !p.boundAt.Add(s.cfg.AssumeTTL).After(now) {
			s.log.Warn("pod was bound but not seen bound in time", "pod", p.namespace+"/"+p.name, "node", p.node)
			s.unassume(p)
			if p.pod.DeletionTimestamp == nil {
				s.queue.retry(p, now)
			}
		}
	}
	s.queue.flushStale(now)
	s.retell(now)
}

// untold notes that what was told of a pod did not arrive; it is told again in a
// while, as the pod may not be tried for long.
func (s *Scheduler) untold(uid types.UID) {
	if s.pods[uid] != nil {
		s.unheard = append(s.unheard, uid)
	}
}

// retell tells again what did not arrive.
func (s *Scheduler) retell(now time.Time) {
	for _, uid := range s.unheard {
		p := s.pods[uid]
		if p == nil || p.node != "" {
			continue
		}
		nominated := p.nominated
		s.report.patch(note{pod: p.pod, reason: p.reason, message: p.message, at: now, nominated: &nominated})
	}
	s.unheard = nil
}

// policyChanged brings every parked pod back: other plugins, other answers. The
// new policy is fed at once, which also tells the host that it is in use.
func (s *Scheduler) policyChanged() {
	s.eager = true
	s.queue.everything(eventForced, s.clock.Now())
}

// prepare reports whether each profile has a policy that can be asked, or none
// that could come to be: a first policy is being fed at the start, and its
// pods wait for that instead of failing. The host signals when it is done.
func (s *Scheduler) prepare(ctx context.Context) (bool, error) {
	for _, p := range s.profiles {
		if p.policy != nil || p.source.Policy() == nil {
			continue
		}
		if err := s.flush(ctx); err != nil {
			return false, err
		}
		if p.policy == nil {
			return false, nil
		}
	}
	return true, nil
}

// turn takes up a profile's policy; one that is not prepared yet is only fed,
// beside the one before.
func (p *profile) turn() (fresh bool) {
	policy := p.source.Policy()
	switch {
	case policy == p.policy:
		p.next = nil
	case policy == nil:
		p.turned = p.policy != nil
		p.policy, p.next = nil, nil
	case policy != p.next:
		p.next, fresh = policy, true
	}
	return fresh
}

// settle ends the time of the policy before when the next one is prepared.
func (p *profile) settle() {
	if p.next == nil {
		return
	}
	if preparing, ok := p.next.(contractv1.Preparing); !ok || preparing.Prepared() {
		p.policy, p.next = p.next, nil
		p.turned = true
	}
}

// flush hands the pending operations to the policies as one delta.
func (s *Scheduler) flush(ctx context.Context) error {
	fresh := false
	for _, p := range s.profiles {
		fresh = p.turn() || fresh
	}
	// A policy that is new learns from an empty delta that it is behind.
	if len(s.snapshot.pending) > 0 || fresh {
		operations := s.snapshot.pending
		s.snapshot.pending = nil
		if err := s.applyAll(ctx, operations); err != nil {
			return err
		}
	}
	turned := false
	for _, p := range s.profiles {
		p.settle()
		turned = turned || p.turned
		p.turned = false
	}
	if turned {
		s.repoint(ctx)
	}
	if len(s.unreserves) > 0 {
		s.unreserve(ctx)
	}
	return nil
}

// applyAll gives operations to the policies as the next delta.
func (s *Scheduler) applyAll(ctx context.Context, operations []*contractv1.Operation) error {
	delta := s.replica.advance(operations)
	s.tellDelta(delta)
	for name, p := range s.profiles {
		for _, policy := range []Policy{p.policy, p.next} {
			if policy == nil {
				continue
			}
			if err := policy.Apply(ctx, delta); err != nil {
				return fmt.Errorf("apply delta %d to profile %s: %w", delta.Generation, name, err)
			}
		}
	}
	return nil
}

// atPoints does what plugins at points of the cycle need between decisions.
func (s *Scheduler) atPoints(ctx context.Context, now time.Time) {
	s.review(ctx, now)
	s.queue.wake(now)
	s.enter(ctx)
}
