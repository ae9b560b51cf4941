package scheduler

import (
	"context"
	"errors"
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

	"pintle.dev/pintle/kernel/readable"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/handover"
	"pintle.dev/pintle/kernel/scheduler/resultcache"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Scheduler is one scheduler for the profiles it was given, at first or by SetProfiles.
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
	wake      chan struct{} // a policy changed, or which profiles there are
	// wanted are the profiles that there are to be; nil: they stay as they are.
	wanted atomic.Pointer[map[string]PolicySource]
	// inspections are questions about the cycle's state, which it answers
	// between two decisions.
	inspections chan func(context.Context)
	started     atomic.Bool

	followMu  sync.Mutex
	followers atomic.Pointer[[]*explain.Comparison]

	replica *snapshot.Replica
	record  *explain.Record
	counts  *queueMetrics
	whole   *wholeNodes // nil: nobody needs them
	report  *reporter

	// All below belongs to the cycle's goroutine.
	random     *rand.Rand
	source     *rand.PCG // of random
	oneByOne   bool      // pods are not decided about together (batch.go)
	batch      []batched // memory of scheduleBatch
	takenAt    []int32   // of nodes in it, see correct; otherwise 0
	snapshot   *snapshot.Snapshot
	view       *resultcache.View // of it
	queue      *queue
	pods       map[types.UID]*podEntry
	assumed    assumedPods
	shapes     map[[32]byte]*shape
	cached     []*shape // that have a class
	classBytes int      // of their shapes
	lastClass  uint32
	decisions  uint64
	profiles   map[string]*profile
	watch      func(*profile) // has changes of its policy signalled, while Run
	unsynced   int
	swept      time.Time
	troubled   time.Time
	unheard    []types.UID // what was told of these pods did not arrive
	eager      bool        // flush without waiting for a decision
	counted    bool        // Metrics know how much there is
	isBusy     bool        // as was told

	// While plugins do not answer (yield.go).
	ownership    *handover.Ownership
	works        []work    // that the cycle is in the middle of, the inner ones last
	keeps        time.Time // until then a profile that needs its time may keep the cycle
	heldBack     bool      // a profile is away, rests or is fed
	hypothetical hypothetical

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
	bindings   sync.WaitGroup
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
		preempted: make(chan preemption, evictions), evicting: make(chan struct{}, evictions), counts: deps.Metrics.ofQueue(),
		wake: make(chan struct{}, 1), inspections: make(chan func(context.Context)),
		replica: snapshot.NewReplica(cfg.FirstGeneration), record: explain.NewRecord(cfg.Explain), whole: newWholeNodes(deps.Extenders), report: newReporter(&deps),
		source:   rand.NewPCG(seed, seed^0x9e3779b97f4a7c15),
		snapshot: snapshot.NewSnapshot(), queue: newQueue(&cfg),
		pods:    map[types.UID]*podEntry{},
		waiting: map[types.UID]*held{}, presumed: map[objectRef]assumption{},
		shapes: map[[32]byte]*shape{}, profiles: map[string]*profile{},
		unsynced: 2 + len(deps.Objects), ownership: handover.New(),
	}
	waiting, written := cfg.BindWorkers, 3*cfg.BindWorkers
	if s.together() {
		waiting, written = writtenTogether, gatherers*writtenTogether
	}
	s.binds, s.results = make(chan bindRequest, waiting), make(chan bindResult, waiting+written)
	s.random = rand.New(s.source)
	s.view = resultcache.NewView(s.snapshot)
	s.view.Now, s.view.ApplyHypothetical = s.clock.Now, s.applyHypothetical
	s.queue.came, s.queue.waits = s.counts.came, s.counts.waits
	for name, source := range deps.Profiles {
		s.profiles[name] = s.newProfile(name, source)
	}
	return s, nil
}

// Replica implements ReplicaSource: everything the plugins were told so far.
// Safe for concurrent use, before, while and after Run.
func (s *Scheduler) Replica() *contractv1.Delta { return s.replica.Full() }

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
	reflect("Pod", s.deps.Pods, &v1.Pod{}, newPodInlet(ctx, s.inbox, len(s.deps.Extenders) > 0))
	reflect("Node", s.deps.Nodes, &v1.Node{}, newNodeInlet(ctx, s.inbox, s.whole))
	for kind, lw := range s.deps.Objects {
		object, _ := readable.Of(kind)
		reflect(kind, lw, object.Object, newObjectInlet(ctx, s.inbox))
	}
	s.watch = func(p *profile) {
		changed := p.source.Changed()
		group.Go(func() { s.watchPolicy(ctx, changed) })
	}
	for _, p := range s.profiles {
		s.watch(p)
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
	s.ownership.Run(func() bool { return s.loop(ctx) })
	return nil
}
