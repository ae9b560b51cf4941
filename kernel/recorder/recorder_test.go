package recorder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record/util"
	testclock "k8s.io/utils/clock/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api keeps events as an API does.
type api struct {
	mu      sync.Mutex
	events  map[string]*eventsv1.Event
	creates int
	batches [][]string // notes of them
	refuse  func(*eventsv1.Event) error
	block   chan struct{} // nil: it does not
}

func (a *api) Create(ctx context.Context, events []*eventsv1.Event) []error {
	failures := make([]error, len(events))
	if a.block != nil {
		select {
		case <-a.block:
		case <-ctx.Done():
			for i := range failures {
				failures[i] = ctx.Err()
			}
			return failures
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var notes []string
	for _, e := range events {
		notes = append(notes, e.Note)
	}
	a.batches = append(a.batches, notes)
	for i, e := range events {
		a.creates++
		if a.refuse != nil {
			if failures[i] = a.refuse(e); failures[i] != nil {
				continue
			}
		}
		if a.events[e.Name] != nil {
			failures[i] = apierrors.NewAlreadyExists(eventsv1.Resource("events"), e.Name)
			continue
		}
		a.events[e.Name] = e.DeepCopy()
	}
	return failures
}

func (a *api) SetSeries(_ context.Context, _, name string, series *eventsv1.EventSeries) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.events[name] == nil {
		return apierrors.NewNotFound(eventsv1.Resource("events"), name)
	}
	a.events[name].Series = series.DeepCopy()
	return nil
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.events)
}

// counts are the series' counts by note; 0: an event without.
func (a *api) counts() map[string]int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int32{}
	for _, e := range a.events {
		out[e.Note] = 0
		if e.Series != nil {
			out[e.Note] = e.Series.Count
		}
	}
	return out
}

type bench struct {
	*api
	*Recorder
	clock *testclock.FakeClock
	said  int
}

func start(t *testing.T, cfg Config, a *api) *bench {
	t.Helper()
	a.events = map[string]*eventsv1.Event{}
	b := &bench{api: a, clock: testclock.NewFakeClock(time.Unix(1700000000, 0))}
	r, err := New(cfg, Deps{Sink: a, Scheme: scheme.Scheme, Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Recorder = r
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "it runs", func() bool { return b.clock.HasWaiters() })
	return b
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
}

// An event says what client-go's recorder would.
func TestEvent(t *testing.T) {
	b := start(t, Config{}, &api{})
	b.For("default-scheduler").Eventf(pod("victim", "7"), pod("preemptor", "8"), corev1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", "u", "n")
	eventually(t, "written", func() bool { return b.count() == 1 })
	for name, e := range b.events {
		if !strings.HasPrefix(name, "victim.") || e.Namespace != "ns" || e.Note != "Preempted by pod u on node n" || e.Type != "Normal" ||
			e.Reason != "Preempted" || e.Action != "Preempting" || e.ReportingController != "default-scheduler" ||
			!strings.HasPrefix(e.ReportingInstance, "default-scheduler-") || e.Series != nil || !e.EventTime.Time.Equal(b.clock.Now()) ||
			e.Regarding != (corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "victim", UID: "uid-victim", ResourceVersion: "7"}) ||
			e.Related == nil || e.Related.Name != "preemptor" {
			t.Errorf("%+v", e)
		}
	}
	b.For("x").Eventf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, nil, corev1.EventTypeWarning, "Odd", "Looking", "100% odd")
	eventually(t, "one about a node", func() bool { return b.counts()["100% odd"] == 0 && b.count() == 2 })
	b.For("x").Eventf(nil, nil, corev1.EventTypeWarning, "Odd", "Looking", "about nothing")
	eventually(t, "refused", func() bool { return testutil.ToFloat64(b.deps.Metrics.dropped.WithLabelValues(causeWrite)) == 1 })
}

// Thousands are all written; none is one of a series, as each pod has its own.
func TestAllAreWritten(t *testing.T) {
	const n = 5000
	b := start(t, Config{Once: []string{"Scheduled"}}, &api{})
	c := b.For("default-scheduler")
	for i := range n {
		c.Eventf(pod(fmt.Sprint("p", i), "1"), nil, corev1.EventTypeNormal, "Scheduled", "Binding", "to %d", i)
	}
	eventually(t, "all are there", func() bool { return b.count() == n })
	if len(b.series.known) != 0 {
		t.Errorf("%d are remembered", len(b.series.known))
	}
}

// Equal events become a series: the second writes it, others are counted, and the
// count is written every half hour and at its end. An event about another version of the
// pod, which is what another note comes with, is one of its own.
func TestSeries(t *testing.T) {
	b := start(t, Config{}, &api{})
	fail := func(version, note string) {
		b.clock.Step(time.Microsecond) // two events of one instant have one name
		b.For("default-scheduler").Eventf(pod("p", version), nil, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", note)
	}
	taken := func(n int32) func() bool {
		return func() bool {
			b.series.mu.Lock()
			defer b.series.mu.Unlock()
			for _, place := range b.series.known {
				if s := place.Value.(*remembered).event.Series; s != nil && s.Count == n {
					return true
				}
			}
			return false
		}
	}
	fail("1", "no cpu")
	eventually(t, "the first", func() bool { return b.count() == 1 })
	fail("2", "no memory")
	eventually(t, "another", func() bool { return b.count() == 2 })
	fail("2", "no memory")
	eventually(t, "a series", func() bool { return b.counts()["no memory"] == 2 })
	for range 3 {
		fail("2", "no memory")
	}
	eventually(t, "counted", taken(5))
	if got := b.counts(); got["no memory"] != 2 || got["no cpu"] != 0 {
		t.Errorf("%v: a series is written when it begins, and not each time", got)
	}
	for i := range 6 { // it goes on, so that it does not end
		b.clock.Step(5 * time.Minute)
		fail("2", "no memory")
		eventually(t, "counted", taken(6+int32(i)))
	}
	eventually(t, "written after half an hour", func() bool { return b.counts()["no memory"] >= 10 })
	b.api.mu.Lock()
	clear(b.events) // their time to live is over
	b.api.mu.Unlock()
	eventually(t, "written anew at its end", func() bool {
		b.clock.Step(6 * time.Minute)
		return b.counts()["no memory"] == 11
	})
	fail("2", "no memory")
	eventually(t, "one without a series again", func() bool { return b.count() == 2 })
}

// A queue that is full drops and counts; a broken connection is tried again; what the
// API refuses is not.
func TestWhatIsNotWritten(t *testing.T) {
	a := &api{block: make(chan struct{})}
	b := start(t, Config{Queue: 10, Writers: 1, Batch: 1, Once: []string{"R"}}, a)
	dropped := func(cause string) float64 { return testutil.ToFloat64(b.deps.Metrics.dropped.WithLabelValues(cause)) }
	say := func(i int) {
		b.For("c").Eventf(pod(fmt.Sprint("p", i), "1"), nil, corev1.EventTypeNormal, "R", "A", "%d", i)
	}
	say(0)
	eventually(t, "it is being written", func() bool { b.Recorder.mu.Lock(); defer b.Recorder.mu.Unlock(); return len(b.queue) == 0 })
	for i := range 13 {
		say(1 + i)
	}
	if dropped(causeQueue) != 3 {
		t.Errorf("%v dropped, want 3", dropped(causeQueue))
	}
	close(a.block)
	eventually(t, "the others are written", func() bool { return b.count() == 11 })
	broken := true
	a.mu.Lock()
	a.refuse = func(e *eventsv1.Event) error {
		switch {
		case e.Note == "50":
			return apierrors.NewForbidden(eventsv1.Resource("events"), e.Name, errors.New("no"))
		case broken:
			return errors.New("connection refused")
		}
		return nil
	}
	a.mu.Unlock()
	say(50)
	eventually(t, "refused for good", func() bool { return dropped(causeWrite) == 1 })
	say(51)
	eventually(t, "it failed", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.creates == 13 })
	a.mu.Lock()
	broken = false
	a.mu.Unlock()
	eventually(t, "tried again", func() bool {
		b.clock.Step(retryAfter)
		return b.count() == 12
	})
}

func TestNewRejects(t *testing.T) {
	for name, f := range map[string]func() (*Recorder, error){
		"no sink": func() (*Recorder, error) { return New(Config{}, Deps{Scheme: scheme.Scheme}) },
		"queue":   func() (*Recorder, error) { return New(Config{Queue: -1}, Deps{Sink: &api{}, Scheme: scheme.Scheme}) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An event's name is the one that client-go's recorder gives it.
func TestEventName(t *testing.T) {
	for _, of := range []string{"p", "a-b", "0", strings.Repeat("a", 63), strings.Repeat("a", 64), "a.b", "node-1.example.com", strings.Repeat("a.", 100) + "a"} {
		for _, at := range []int64{0, 1, 1700000000123456789, 1<<63 - 1} {
			if got, want := eventName(of, at), util.GenerateEventName(of, at); got != want {
				t.Errorf("%q at %d: %s, want %s", of, at, got, want)
			}
		}
	}
	for _, of := range []string{"", "-a", "a-", "A", "a_b", "ä", "a b", strings.Repeat("a.", 130)} { // such become UUIDs
		if got := eventName(of, 1); len(got) != 36 || strings.Contains(got, ".") {
			t.Errorf("%q: %s", of, got)
		}
	}
	if got, want := eventName("p", -1), util.GenerateEventName("p", -1); len(got) != len(want) {
		t.Errorf("before 1970: %s, want one like %s", got, want)
	}
}

// While something is more urgent events are held: until it ends, for a second, or while
// no more of them wait than may. Each goes in the order in which it came.
func TestHold(t *testing.T) {
	say := func(b *bench, n int) {
		for range n {
			b.clock.Step(time.Millisecond)
			b.For("c").Eventf(pod("p", "1"), nil, corev1.EventTypeNormal, "R", "A", "%d", b.said)
			b.said++
		}
	}
	waiting := func(b *bench) int {
		b.Recorder.mu.Lock()
		defer b.Recorder.mu.Unlock()
		return b.waiting
	}
	tests := []struct {
		name string
		cfg  Config
		do   func(t *testing.T, b *bench)
		want []int // notes that were written in the end, by batch
		left int
	}{
		{name: "it ends", do: func(_ *testing.T, b *bench) {
			say(b, 5)
			b.Hold(false)
		}, want: []int{4, 1}},
		{name: "a second", do: func(t *testing.T, b *bench) {
			say(b, 3)
			b.clock.Step(heldFor - 3*time.Millisecond)
			if n := b.count(); n != 0 || waiting(b) != 3 {
				t.Errorf("%d are written before their time, %d wait", n, waiting(b))
			}
			b.clock.Step(time.Millisecond)
		}, want: []int{3}},
		{name: "the oldest batch", do: func(_ *testing.T, b *bench) {
			say(b, 6)
			b.clock.Step(heldFor - 5*time.Millisecond)
		}, want: []int{4}, left: 2},
		{name: "one after the other", do: func(t *testing.T, b *bench) {
			say(b, 6)
			b.clock.Step(heldFor - 5*time.Millisecond)
			eventually(t, "the first batch", func() bool { return b.count() == 4 })
			eventually(t, "a look at the second", func() bool { b.Recorder.mu.Lock(); defer b.Recorder.mu.Unlock(); return b.timed })
			b.clock.Step(5 * time.Millisecond)
		}, want: []int{4, 2}},
		{name: "too many", cfg: Config{Held: 7}, do: func(_ *testing.T, b *bench) { say(b, 8) }, want: []int{4}, left: 4},
		{name: "not any more", do: func(_ *testing.T, b *bench) {
			b.Hold(false)
			say(b, 1)
		}, want: []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Batch, tt.cfg.Writers, tt.cfg.Once = 4, 1, []string{"R"}
			b := start(t, tt.cfg, &api{})
			b.Hold(true)
			tt.do(t, b)
			total := 0
			for _, n := range tt.want {
				total += n
			}
			eventually(t, "all that is due", func() bool { return b.count() == total && waiting(b) == tt.left })
			b.api.mu.Lock()
			defer b.api.mu.Unlock()
			at := 0
			for i, batch := range b.batches {
				if i == len(tt.want) || len(batch) != tt.want[i] {
					t.Fatalf("batches %q, want %v", b.batches, tt.want)
				}
				for _, note := range batch {
					if note != fmt.Sprint(at) {
						t.Errorf("batches %q: %s, want %d", b.batches, note, at)
					}
					at++
				}
			}
		})
	}
}

// What waits when the recorder ends is written, held or not; but nobody waits for an API
// that does not answer.
func TestEnd(t *testing.T) {
	for name, hangs := range map[string]bool{"written": false, "not answered": true} {
		t.Run(name, func(t *testing.T) {
			a := &api{events: map[string]*eventsv1.Event{}}
			if hangs {
				a.block = make(chan struct{})
			}
			clock := testclock.NewFakeClock(time.Unix(1700000000, 0))
			r, err := New(Config{Batch: 4, Once: []string{"R"}}, Deps{Sink: a, Scheme: scheme.Scheme, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			r.Hold(true)
			for i := range 20 {
				r.For("c").Eventf(pod(fmt.Sprint("p", i), "1"), nil, corev1.EventTypeNormal, "R", "A", "%d", i)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			eventually(t, "it runs", clock.HasWaiters)
			cancel()
			want, lost := 20, 0.0
			if hangs {
				want, lost = 0, 20
				eventually(t, "it gives up", func() bool {
					clock.Step(endsWithin)
					return len(ended) == 1
				})
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			r.For("c").Eventf(pod("late", "1"), nil, corev1.EventTypeNormal, "R", "A", "late")
			if n := a.count(); n != want || len(r.queue) != 0 {
				t.Errorf("%d are written, %d batches wait", n, len(r.queue))
			}
			if got := testutil.ToFloat64(r.deps.Metrics.dropped.WithLabelValues(causeWrite)); got != lost {
				t.Errorf("%v were lost, want %v", got, lost)
			}
			if got := testutil.ToFloat64(r.deps.Metrics.dropped.WithLabelValues(causeQueue)); got != 1 {
				t.Errorf("%v came too late, want 1", got)
			}
		})
	}
}
