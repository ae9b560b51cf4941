package scheduler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func testQueue() *queue {
	c := Config{}
	if err := c.complete(); err != nil {
		panic(err)
	}
	return newQueue(&c)
}

func entry(name string, change ...func(*v1.Pod)) *podEntry {
	return &podEntry{uid: types.UID(name), name: name, pod: makePod(name, 1, change...)}
}

var t0 = time.Unix(1_700_000_000, 0)

func TestQueueOrder(t *testing.T) {
	q := testQueue()
	q.add(entry("old"), t0)
	q.add(entry("high", priority(10)), t0.Add(2*time.Second))
	q.add(entry("new"), t0.Add(time.Second))
	q.add(entry("negative", priority(-1)), t0)
	for _, want := range []string{"high", "old", "new", "negative"} {
		if p := q.pop(t0.Add(time.Minute)); p == nil || p.name != want {
			t.Fatalf("got %v, want %s", p, want)
		}
	}
	if p := q.pop(t0); p != nil {
		t.Errorf("empty queue gave %s", p.name)
	}
}

// Back-off is 1 s and doubles to 10 s.
func TestBackoffDoubles(t *testing.T) {
	q := testQueue()
	p := entry("p")
	q.add(p, t0)
	now := t0
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		got := q.pop(now)
		if got != p {
			t.Fatalf("attempt %d: nothing to pop", i+1)
		}
		q.retry(p, now)
		if at, ok := q.next(); !ok || at.Sub(now) != want*time.Second {
			t.Fatalf("attempt %d: waits %v, want %v", i+1, at.Sub(now), want*time.Second)
		}
		if q.pop(now.Add(want*time.Second-time.Millisecond)) != nil {
			t.Fatalf("attempt %d: popped too early", i+1)
		}
		now = now.Add(want * time.Second)
	}
}

// An event during the back-off brings the pod to the back-off queue, after it
// to the active one.
func TestReleaseHonoursBackoff(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  place
	}{{500 * time.Millisecond, backingOff}, {2 * time.Second, active}} {
		q := testQueue()
		p := entry("p")
		q.add(p, t0)
		q.pop(t0)
		q.park(p, failure{}, t0)
		q.release(t0.Add(c.after), nil)
		if p.place != c.want || len(q.pool) != 0 {
			t.Errorf("after %v: place %d, want %d", c.after, p.place, c.want)
		}
	}
}

func TestReleaseChooses(t *testing.T) {
	q := testQueue()
	reads, spreads, neither := entry("reads"), entry("spreads"), entry("neither")
	for p, f := range map[*podEntry]failure{reads: {kinds: map[string]bool{"Service": true}}, spreads: {cluster: true}, neither: {}} {
		q.add(p, t0)
		q.remove(p)
		q.park(p, f, t0)
	}
	q.release(t0, func(f failure) bool { return f.kinds["Service"] })
	if reads.place == unschedulable || spreads.place != unschedulable || neither.place != unschedulable {
		t.Errorf("places %d %d %d", reads.place, spreads.place, neither.place)
	}
	q.release(t0, func(f failure) bool { return f.cluster })
	if spreads.place == unschedulable || neither.place != unschedulable {
		t.Errorf("places %d %d", spreads.place, neither.place)
	}
}

func TestFlushStale(t *testing.T) {
	q := testQueue()
	p := entry("p")
	q.add(p, t0)
	q.pop(t0)
	q.park(p, failure{}, t0)
	q.flushStale(t0.Add(5*time.Minute - time.Second))
	if p.place != unschedulable {
		t.Error("flushed too early")
	}
	q.flushStale(t0.Add(5 * time.Minute))
	if p.place != active {
		t.Errorf("place %d", p.place)
	}
}

// remove finds a pod in each place, and add keeps each pod once.
func TestRemoveEverywhere(t *testing.T) {
	q := testQueue()
	gate := func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }
	a, b, c, d := entry("a"), entry("b"), entry("c"), entry("d", gate)
	q.add(a, t0)
	q.add(a, t0)
	q.retry(b, t0)
	q.park(c, failure{}, t0)
	q.add(d, t0)
	if d.place != gated || q.active.Len() != 1 {
		t.Fatalf("gated pod in place %d, %d active", d.place, q.active.Len())
	}
	for _, p := range []*podEntry{a, b, c, d} {
		q.remove(p)
		if p.place != nowhere {
			t.Errorf("%s is in place %d", p.name, p.place)
		}
	}
	if q.active.Len()+q.backoff.Len()+len(q.pool)+len(q.gated) != 0 {
		t.Error("something is left")
	}
}

func TestConfigRejects(t *testing.T) {
	for name, c := range map[string]Config{
		"workers": {BindWorkers: -1}, "too many workers": {BindWorkers: 4096}, "classes": {MaxClasses: -1},
		"back-off": {BackoffInitial: time.Minute}, "flush": {UnschedulableFlush: -1}, "rate": {EventRate: -1},
	} {
		if err := c.complete(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, d := range map[string]Deps{"nothing": {}, "no nodes": {Pods: newAPI(t).pods}} {
		if _, err := New(Config{}, d); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
