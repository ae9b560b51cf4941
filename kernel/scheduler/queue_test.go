package scheduler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

func testQueue() *queue {
	c := Config{}
	if err := c.complete(); err != nil {
		panic(err)
	}
	return newQueue(&c)
}

func newEntry(name string, change ...func(*v1.Pod)) *podEntry {
	p := schedulertest.MakePod(name, 1, change...)
	sh, err := newShape(p)
	if err != nil {
		panic(err)
	}
	return &podEntry{Pod: snapshot.Pod{UID: types.UID(name), Name: name, Object: p, Shape: &sh.Shape}, shape: sh}
}

var (
	fresh   = entry{event: eventPodAdd}
	nobody  = framework.NewFailure(nil)
	byOther = framework.NewFailure([]framework.Rejector{{Name: "Other"}})
)

var t0 = time.Unix(1_700_000_000, 0)

func TestQueueOrder(t *testing.T) {
	q := testQueue()
	q.add(newEntry("old"), fresh, t0)
	q.add(newEntry("high", priority(10)), fresh, t0.Add(2*time.Second))
	q.add(newEntry("new"), fresh, t0.Add(time.Second))
	q.add(newEntry("negative", priority(-1)), fresh, t0)
	for _, want := range []string{"high", "old", "new", "negative"} {
		if p := q.pop(t0.Add(time.Minute)); p == nil || p.Name != want {
			t.Fatalf("got %v, want %s", p, want)
		}
	}
	if p := q.pop(t0); p != nil {
		t.Errorf("empty queue gave %s", p.Name)
	}
}

// Back-off after errors is 1 s and doubles to 10 s; it ends with the window that
// it reaches into (KEP-5142).
func TestBackoffDoubles(t *testing.T) {
	q := testQueue()
	p := newEntry("p")
	q.add(p, fresh, t0)
	now := t0
	for i, want := range []time.Duration{1, 2, 4, 8, 10, 10} {
		got := q.pop(now)
		if got != p {
			t.Fatalf("attempt %d: nothing to pop", i+1)
		}
		q.retry(p, now)
		wait := want*time.Second + window
		if at, ok := q.next(); !ok || at.Sub(now) != wait {
			t.Fatalf("attempt %d: waits %v, want %v", i+1, at.Sub(now), wait)
		}
		if q.pop(now.Add(wait-time.Millisecond)) != nil {
			t.Fatalf("attempt %d: popped too early", i+1)
		}
		now = now.Add(wait)
	}
}

// An event during the back-off brings the pod to the back-off queue, after it
// to the active one.
func TestReleaseHonoursBackoff(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  place
	}{{500 * time.Millisecond, backingOff}, {3 * time.Second, active}} {
		q := testQueue()
		p := newEntry("p")
		q.add(p, fresh, t0)
		q.pop(t0)
		q.park(p, byOther, t0)
		q.everything(eventForced, t0.Add(c.after))
		if p.place != c.want || len(q.pool) != 0 || len(q.groups) != 0 {
			t.Errorf("after %v: place %d, want %d", c.after, p.place, c.want)
		}
	}
}

// While nothing is active, a pod that was refused does not wait for the end of
// its back-off; one that met an error does (KEP-5142).
func TestPopFromBackoff(t *testing.T) {
	q := testQueue()
	refused, erred, low := newEntry("refused", priority(1)), newEntry("erred", priority(9)), newEntry("low")
	for _, p := range []*podEntry{refused, erred, low} {
		q.add(p, fresh, t0)
		q.remove(p)
	}
	q.park(refused, byOther, t0)
	q.park(low, byOther, t0)
	q.retry(erred, t0)
	q.everything(eventForced, t0)
	q.add(newEntry("fresh"), fresh, t0)
	for _, want := range []string{"fresh", "refused", "low"} {
		if p := q.pop(t0); p == nil || p.Name != want {
			t.Fatalf("got %v, want %s", p, want)
		}
	}
	if p := q.pop(t0); p != nil {
		t.Fatalf("%s did not wait", p.Name)
	}
	if p := q.pop(t0.Add(2 * time.Second)); p != erred {
		t.Fatalf("got %v, want erred", p)
	}
}

// A pod that was tried goes behind those of its priority that were not (fairness
// as in kube-scheduler: by the time of the last entry).
func TestTriedPodsGoBehind(t *testing.T) {
	q := testQueue()
	first, second := newEntry("first"), newEntry("second")
	q.add(first, fresh, t0)
	q.add(second, fresh, t0.Add(time.Second))
	q.pop(t0)
	q.park(first, byOther, t0.Add(2*time.Second))
	q.everything(eventForced, t0.Add(time.Minute))
	if p := q.pop(t0.Add(time.Minute)); p != second {
		t.Errorf("got %v, want second", p)
	}
}

// The clock may be set back by a day: nobody waits longer than the longest
// back-off, or for the flush.
func TestClockIsSetBack(t *testing.T) {
	q := testQueue()
	erred, parked := newEntry("erred"), newEntry("parked")
	q.add(erred, fresh, t0)
	q.add(parked, fresh, t0)
	q.pop(t0)
	q.pop(t0)
	q.retry(erred, t0)
	q.park(parked, byOther, t0)
	back := t0.Add(-24 * time.Hour)
	if q.pop(back) != nil {
		t.Error("popped at once")
	}
	q.flushStale(back)
	if p := q.pop(back.Add(2 * time.Second)); p != erred {
		t.Errorf("got %v after 2 s, want erred", p)
	}
	q.flushStale(back.Add(5*time.Minute + time.Second))
	if p := q.pop(back.Add(6 * time.Minute)); p != parked {
		t.Errorf("got %v after 6 min, want parked", p)
	}
}

// A clock that jumps ahead by a day ends every wait at once, and no wait that begins
// then is longer or shorter for it.
func TestClockJumpsAhead(t *testing.T) {
	q := testQueue()
	erred, refused, parked := newEntry("erred"), newEntry("refused"), newEntry("parked")
	for _, p := range []*podEntry{erred, refused, parked} {
		q.add(p, fresh, t0)
		q.remove(p)
	}
	q.retry(erred, t0)
	q.park(refused, byOther, t0)
	q.everything(eventForced, t0)
	q.park(parked, byOther, t0)
	ahead := t0.Add(24 * time.Hour)
	q.flushStale(ahead)
	seen := map[string]bool{}
	for p := q.pop(ahead); p != nil; p = q.pop(ahead) {
		seen[p.Name] = true
	}
	if len(seen) != 3 {
		t.Fatalf("only %v are tried", seen)
	}
	q.retry(erred, ahead)
	if at, ok := q.next(); !ok || at.Sub(ahead) > 2*time.Second+window {
		t.Errorf("the next back-off ends %v later", at.Sub(ahead))
	}
	q.park(parked, byOther, ahead)
	if q.flushStale(ahead.Add(5 * time.Minute)); parked.place != unschedulable {
		t.Error("flushed too early")
	}
	if q.flushStale(ahead.Add(5*time.Minute + time.Second)); parked.place == unschedulable {
		t.Error("not flushed")
	}
}

// SCH-1: back-off is as it is configured.
func TestBackoffIsConfigured(t *testing.T) {
	q := newQueue(&Config{BackoffInitial: 3 * time.Second, BackoffMax: 20 * time.Second, UnschedulableFlush: time.Minute})
	for attempts, want := range []time.Duration{3, 3, 6, 12, 20, 20} {
		if got := q.delay(attempts); got != want*time.Second {
			t.Errorf("after %d attempts it waits %v, want %v", attempts, got, want*time.Second)
		}
	}
}

func TestFlushStale(t *testing.T) {
	q := testQueue()
	p := newEntry("p")
	q.add(p, fresh, t0)
	q.pop(t0)
	q.park(p, byOther, t0)
	q.flushStale(t0.Add(5 * time.Minute))
	if p.place != unschedulable {
		t.Error("flushed too early")
	}
	q.flushStale(t0.Add(5*time.Minute + time.Second))
	if p.place != active || !p.flushed {
		t.Errorf("place %d", p.place)
	}
}

// remove finds a pod in each place, and add keeps each pod once.
func TestRemoveEverywhere(t *testing.T) {
	q := testQueue()
	a, b, c, d := newEntry("a"), newEntry("b"), newEntry("c"), newEntry("d")
	q.add(a, fresh, t0)
	q.add(a, fresh, t0)
	q.retry(b, t0)
	q.park(c, byOther, t0)
	q.gate(d, nobody)
	if d.place != gated || q.gates != 1 || q.active.Len() != 1 || len(q.groups) != 2 {
		t.Fatalf("gated pod in place %d, %d active, %d groups", d.place, q.active.Len(), len(q.groups))
	}
	for _, p := range []*podEntry{a, b, c, d} {
		q.remove(p)
		if p.place != nowhere {
			t.Errorf("%s is in place %d", p.Name, p.place)
		}
	}
	if q.active.Len()+q.backoff.Len()+q.faulty.Len()+len(q.pool)+len(q.groups)+q.gates != 0 {
		t.Error("something is left")
	}
}

func TestConfigRejects(t *testing.T) {
	for name, c := range map[string]Config{
		"workers": {BindWorkers: -1}, "too many workers": {BindWorkers: 4096}, "classes": {MaxClasses: -1},
		"back-off": {BackoffInitial: time.Minute}, "flush": {UnschedulableFlush: -1}, "explain": {Explain: -1},
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
