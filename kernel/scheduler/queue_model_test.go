package scheduler

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
)

// modelPod is a pod in a queue that is nothing but a list.
type modelPod struct {
	*podEntry
	where    string // active, backoff, faulty, pool, or out
	priority int32
	stamp    time.Time
	ready    time.Time // end of back-off, as a window
	refusals int
	faults   int
	by       *framework.Failure
}

type model struct {
	pods  map[string]*modelPod
	epoch time.Time
}

func (m *model) window(t time.Time) time.Time {
	// The test's times are never before its first.
	return m.epoch.Add(t.Sub(m.epoch) / time.Second * time.Second)
}

// enter puts a pod where it may be tried, or waits for its time.
func (m *model) enter(p *modelPod, now time.Time) {
	count, where := p.refusals, "backoff"
	if p.faults > 0 {
		count, where = p.faults, "faulty"
	}
	wait := time.Second
	for i := 1; i < count; i++ {
		wait = min(2*wait, 10*time.Second)
	}
	p.ready = m.window(p.stamp.Add(wait))
	if p.where = where; count == 0 || p.ready.Before(m.window(now)) {
		p.where = "active"
	}
}

func (m *model) in(where string) (list []*modelPod) {
	for _, p := range m.pods {
		if p.where == where {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *modelPod) int {
		if where != "active" && !a.ready.Equal(b.ready) {
			return a.ready.Compare(b.ready)
		}
		return cmp.Or(int(b.priority)-int(a.priority), a.stamp.Compare(b.stamp))
	})
	return list
}

func (m *model) pop(now time.Time) *modelPod {
	for _, where := range []string{"backoff", "faulty"} {
		for _, p := range m.in(where) {
			if p.ready.Before(m.window(now)) {
				p.where = "active"
			}
		}
	}
	for _, where := range []string{"active", "backoff"} {
		if list := m.in(where); len(list) > 0 {
			list[0].where = "out"
			return list[0]
		}
	}
	return nil
}

// The queue does what a plain list would: order, back-off in windows, taking from
// the back-off queue when nothing else is there, the pool and its groups.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { runModel(t, seed) })
	}
}

func runModel(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	q := testQueue()
	q.windowOf(t0)
	m := &model{pods: map[string]*modelPod{}, epoch: t0}
	now := t0
	rejectors := []*framework.Failure{framework.NewFailure([]framework.Rejector{{Name: "A"}}), framework.NewFailure([]framework.Rejector{{Name: "B"}}), framework.NewFailure([]framework.Rejector{{Name: "A"}, {Name: "B"}})}
	next := 0
	any := func(places ...string) *modelPod {
		var list []*modelPod
		for _, where := range places {
			list = append(list, m.in(where)...)
		}
		if len(list) == 0 {
			return nil
		}
		return list[random.IntN(len(list))]
	}
	var out *modelPod
	for step := range 600 {
		now = now.Add(time.Duration(random.IntN(700)+1) * time.Millisecond)
		if out != nil {
			// The pod that was taken is decided about before anything else.
			switch random.IntN(4) {
			case 0:
				out.podEntry.seen = uint64(step)
				q.park(out.podEntry, rejectors[random.IntN(3)], now)
				out.where, out.by, out.stamp, out.faults = "pool", out.podEntry.failed, now, 0
				out.refusals++
			case 1, 2:
				if random.IntN(2) == 0 {
					q.retry(out.podEntry, now)
					out.stamp = now
					out.faults++
					m.enter(out, now)
					break
				}
				fallthrough
			default:
				delete(m.pods, out.Name)
			}
			out = nil
			continue
		}
		switch op := random.IntN(12); op {
		case 0, 1, 2: // a new pod
			p := newEntry(fmt.Sprint("p", next), priority(int32(random.IntN(4))))
			next++
			q.add(p, fresh, now)
			m.pods[p.Name] = &modelPod{podEntry: p, where: "active", priority: *p.Object.Spec.Priority, stamp: now}
		case 3, 4, 5, 6: // the next one
			want, got := m.pop(now), q.pop(now)
			if (want == nil) != (got == nil) || want != nil && want.podEntry != got {
				t.Fatalf("step %d: took %v, want %v", step, name(got), want)
			}
			out = want
		case 7: // an event for all that a failure names
			f := rejectors[random.IntN(3)]
			for _, g := range q.groups {
				if g.failed == f {
					for p := range g.pods {
						q.add(p, entry{event: "Event"}, now)
					}
				}
			}
			for _, p := range m.in("pool") {
				if p.by == f {
					m.enter(p, now)
				}
			}
		case 8: // the flush
			q.flushStale(now)
			for _, p := range m.in("pool") {
				if now.Sub(p.stamp) > 5*time.Minute {
					m.enter(p, now)
				}
			}
			if random.IntN(4) == 0 {
				now = now.Add(6 * time.Minute)
			}
		case 9: // a pod goes
			if p := any("active", "backoff", "faulty", "pool"); p != nil {
				q.remove(p.podEntry)
				delete(m.pods, p.Name)
			}
		case 10: // a pod's priority changes while it waits
			if p := any("active", "backoff", "faulty"); p != nil {
				p.priority = int32(random.IntN(4))
				changed := p.Object.DeepCopy()
				changed.Spec.Priority = &p.priority
				p.podEntry.Object = changed
				q.reorder(p.podEntry, now)
			}
		case 11: // at once, whatever the back-off
			if p := any("pool"); p != nil {
				q.add(p.podEntry, entry{event: eventForced, at: true}, now)
				p.where = "active"
			}
		}
		checkQueue(t, q, m, step)
	}
}

func name(p *podEntry) string {
	if p == nil {
		return "nobody"
	}
	return p.Name
}

// checkQueue compares where pods are, and the queue with itself.
func checkQueue(t *testing.T, q *queue, m *model, step int) {
	t.Helper()
	count := map[string]int{}
	for _, p := range m.pods {
		count[p.where]++
		want := map[string]place{"active": active, "backoff": backingOff, "faulty": backingOff, "pool": unschedulable, "out": nowhere}[p.where]
		if p.podEntry.place != want {
			t.Fatalf("step %d: %s is in place %d, want %s", step, p.Name, p.podEntry.place, p.where)
		}
	}
	grouped := 0
	for key, g := range q.groups {
		grouped += len(g.pods)
		for p := range g.pods {
			if p.group != g || q.pool[p.UID] != p || key.shape != p.shape || g.from > p.seen {
				t.Fatalf("step %d: %s is in a group that is not its own", step, p.Name)
			}
		}
	}
	if q.active.Len() != count["active"] || q.backoff.Len() != count["backoff"] || q.faulty.Len() != count["faulty"] || len(q.pool) != count["pool"] || grouped != count["pool"] {
		t.Fatalf("step %d: %d active, %d backing off, %d after errors, %d in the pool, %d in groups; want %v",
			step, q.active.Len(), q.backoff.Len(), q.faulty.Len(), len(q.pool), grouped, count)
	}
	for _, h := range []*podHeap{&q.active, &q.backoff, &q.faulty} {
		for i := range h.items {
			p := h.items[i].pod
			if h.items[i] != p.turn() {
				t.Fatalf("step %d: the heap has another turn of %s than it has", step, p.Name)
			}
			if p.index != i {
				t.Fatalf("step %d: %s thinks it is at %d, and is at %d", step, p.Name, p.index, i)
			}
		}
	}
}

// Whatever happens to a pod and the cluster around it, it is bound once, or it
// waits: random changes, deletions, gates, conflicts of a second scheduler, nodes
// that go between the decision and the binding, and a clock that jumps.
func TestPodsAreNeitherLostNorBoundTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	vanish := 0
	c, _ := startCycle(t, 3, []any{gates}, func(c *cluster) {
		c.refuse = func(string) error {
			if vanish++; vanish%7 == 3 {
				return fmt.Errorf("nodes %q not found", "n2")
			}
			return nil
		}
	})
	const pods = 40
	alive := map[int]bool{}
	gatedPods := map[int]bool{}
	for i := range pods {
		change := []func(*v1.Pod){priority(int32(random.IntN(3)))}
		if gatedPods[i] = random.IntN(4) == 0; gatedPods[i] {
			change = append(change, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} })
		}
		c.addPod(schedulertest.MakePod(fmt.Sprint("p", i), int64(random.IntN(100)), change...))
		alive[i] = true
		victim := random.IntN(i + 1)
		switch random.IntN(8) {
		case 0:
			if alive[victim] {
				c.deletePod(fmt.Sprint("p", victim))
				delete(alive, victim)
			}
		case 1:
			if alive[victim] && c.node(fmt.Sprint("p", victim)) == "" {
				// Another scheduler was faster.
				c.changePod(fmt.Sprint("p", victim), func(p *v1.Pod) {
					if p.Spec.NodeName == "" {
						p.Spec.NodeName = "n0"
					}
				})
			}
		case 2:
			c.nodes.Delete(schedulertest.MakeNode("n2", 4000, nil))
		case 3:
			c.nodes.Add(schedulertest.MakeNode("n2", 4000, map[string]string{"name": "n2"}))
		case 4:
			c.clock.SetTime(c.clock.Now().Add(time.Duration(random.IntN(7200)-3600) * time.Second))
		}
	}
	for i := range pods {
		if alive[i] && gatedPods[i] {
			c.changePod(fmt.Sprint("p", i), func(p *v1.Pod) { p.Generation++; p.Spec.SchedulingGates = nil })
		}
	}
	eventually(t, "all are bound", func() bool {
		c.clock.Step(time.Second)
		for i := range alive {
			if c.node(fmt.Sprint("p", i)) == "" {
				return false
			}
		}
		return true
	})
}
