package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func TestIndexes(t *testing.T) {
	for _, tt := range []struct {
		in          string
		completions int
		want        string
		total       int
	}{
		{"", 5, "", 0}, {"1", 5, "1", 1}, {"1,2", 5, "1,2", 2}, {"1-3,5", 9, "1-3,5", 4}, {"0-9", 4, "0-3", 4}, {"7", 4, "", 0},
		// What a status may hold that someone edited.
		{"5-2", 9, "", 0}, {"-5", 9, "", 0}, {"x,3,4-y", 9, "3", 1}, {"3-5,1,4-7", 9, "3-7", 5}, {"0-99999999999999999999", 9, "", 0}, {"1,1,1", 9, "1", 1}, {",,", 9, "", 0},
	} {
		if got := parseIndexes(tt.in, tt.completions); got.String() != tt.want || got.total() != tt.total {
			t.Errorf("%q of %d: %q, %d; want %q, %d", tt.in, tt.completions, got, got.total(), tt.want, tt.total)
		}
	}
	x := parseIndexes("1-3,6", 10)
	if got := x.with([]int{5, 0, 9, 5}).String(); got != "0-3,5,6,9" {
		t.Error(got)
	}
	if got := x.firstMissing(4, 8); !slices.Equal(got, []int{0, 4, 5, 7}) {
		t.Error(got)
	}
	if x.has(0) || !x.has(1) || !x.has(3) || x.has(4) || !x.has(6) || x.has(7) {
		t.Error("has")
	}
	if n := x.shared(parseIndexes("0-2,5-9", 10)); n != 3 {
		t.Error(n)
	}
}

func TestBackoff(t *testing.T) {
	at := func(s int) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(start.Add(time.Duration(s) * time.Second))},
		}}}}}
	}
	for n, want := range map[int32]time.Duration{0: 0, 1: 10 * time.Second, 2: 20 * time.Second, 3: 40 * time.Second, 7: 10 * time.Minute, 1 << 30: 10 * time.Minute} {
		if got := (failures{count: n, last: start}).left(start); got != want {
			t.Errorf("%d failures: %s, want %s", n, got, want)
		}
	}
	b := newBackoffs()
	now := start.Add(time.Hour)
	f := b.next("j", nil, []*corev1.Pod{at(5), at(3)}, now)
	if f != (failures{2, start.Add(5 * time.Second)}) {
		t.Errorf("two failures: %+v", f)
	}
	b.store("j", f)
	if f := b.next("j", []*corev1.Pod{at(6)}, []*corev1.Pod{at(4), at(7)}, now); f != (failures{1, start.Add(7 * time.Second)}) {
		t.Errorf("a success, and a failure after it: %+v", f)
	}
	if f := b.next("j", nil, []*corev1.Pod{at(1 << 20)}, now); f != (failures{3, now}) {
		t.Errorf("a failure in the future: %+v", f)
	}
}

// 18.19: a deadline of hundreds of years is not one that is over.
func TestDeadlineDoesNotOverflow(t *testing.T) {
	job := work(func(j *batchv1.Job) {
		j.Spec.ActiveDeadlineSeconds, j.Status.StartTime = ptr.To[int64](1<<63-1), ptr.To(metav1.NewTime(start))
	})
	if left, timed := untilDeadline(job, start.Add(time.Hour)); !timed || left < 24*time.Hour {
		t.Errorf("left %s, timed %v", left, timed)
	}
}

func TestPodOfAnIndex(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), indexedWork(2, 2, func(j *batchv1.Job) {
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](1)
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "own", Env: []corev1.EnvVar{{Name: indexVariable, Value: "mine"}}}}
	}))
	w.start().settled()
	pods := w.list()
	if len(pods) != 2 {
		t.Fatalf("%d pods", len(pods))
	}
	p := pods[1]
	variable := p.Spec.Containers[0].Env[0]
	if p.GenerateName != "work-1-" || p.Spec.Hostname != "work-1" || p.Labels[batchv1.JobCompletionIndexAnnotation] != "1" ||
		p.Annotations[batchv1.JobCompletionIndexAnnotation] != "1" || p.Annotations[batchv1.JobIndexFailureCountAnnotation] != "0" ||
		variable.ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" ||
		p.Spec.InitContainers[0].Env[0].Value != "mine" || !isTracked(p) || !metav1.IsControlledBy(p, w.job()) {
		t.Errorf("%+v", p)
	}
	if name := indexPrefix(strings.Repeat("x", 63), 12); len(name) != longestPrefix || !strings.HasSuffix(name, "x-12-") {
		t.Error(name)
	}
}

// Events have upstream's words, in the order of what happens.
func TestEvents(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(start)
	w := newWorld(t, clk, work(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](0) }))
	p := w.start()
	p.settled()
	w.changeJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
	p.settled()
	w.changeJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
	p.settled()
	w.end("work-00002", 1)
	p.settled()
	want := []string{
		"Normal SuccessfulCreate Created pod: work-00001", "Normal SuccessfulDelete Deleted pod: work-00001", "Normal Suspended Job suspended",
		"Normal Resumed Job resumed", "Normal SuccessfulCreate Created pod: work-00002", "Warning BackoffLimitExceeded Job has reached the specified backoff limit",
	}
	got := w.told()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A quota that refuses in the midst is asked once a sync, and nothing that was
// refused is waited for.
func TestQuota(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), indexedWork(100, 100, nil))
	left, asked := 10, 0
	w.refuse = func(verb, resource string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if verb != "create" {
			return nil
		}
		asked++
		if left--; left < 0 {
			return apierrors.NewForbidden(podsResource, "work-", errors.New("exceeded quota"))
		}
		return nil
	}
	p := w.start()
	if err := p.look(); !apierrors.IsForbidden(err) {
		t.Fatalf("error %v", err)
	}
	if n := len(w.list()); n != 10 || asked > 15 {
		t.Errorf("%d pods after %d creations", n, asked)
	}
	if s := w.job().Status; s.Active != 10 {
		t.Errorf("status %+v", s)
	}
	asked = 0
	if err := p.look(); !apierrors.IsForbidden(err) || asked != 1 {
		t.Errorf("%d creations: %v", asked, err)
	}
	left = 1000
	p.settled()
	if n := len(w.list()); n != 100 {
		t.Errorf("%d pods", n)
	}
}

// A webhook refuses every second write: the end is the same, and no index runs
// twice.
func TestEverySecondWriteIsRefused(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), indexedWork(20, 20, nil))
	n := 0
	w.refuse = func(string, string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if n++; n%2 == 0 {
			return errors.New("a webhook refuses")
		}
		return nil
	}
	p := w.start()
	for range 200 {
		_ = p.look() // fails more often than not
		for _, pod := range w.list() {
			if !ended(pod) {
				w.end(pod.Name, 0)
			}
		}
		if finished(w.job()) {
			break
		}
	}
	if s := w.job().Status; s.CompletedIndexes != "0-19" || s.Succeeded != 20 || conditions(w.job()) != "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached" {
		t.Errorf("status %+v", s)
	}
	for i, made := range w.made {
		if made != 1 {
			t.Errorf("%d pods of index %s", made, i)
		}
	}
}

// Someone takes finalizers off, edits the status and the indexes: nothing is
// counted twice, nothing loops, and the Job ends.
func TestMeddling(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), indexedWork(3, 3, nil))
	p := w.start()
	p.settled()
	pods := w.list()
	w.changePod(pods[0].Name, func(p *corev1.Pod) { p.Finalizers = nil })
	w.end(pods[0].Name, 0)                                                 // is not counted
	w.changePod(pods[1].Name, func(p *corev1.Pod) { p.Annotations = nil }) // has no index any more
	w.end(pods[2].Name, 0)
	p.settled()
	if s := w.job().Status; s.CompletedIndexes != "2" || s.Active != 2 {
		t.Fatalf("status %+v", s)
	}
	w.changeJob(func(j *batchv1.Job) {
		j.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"nobody"}, Failed: []types.UID{"neither"}}
		j.Status.CompletedIndexes = "9-1,x,2-4"
	})
	p.settled()
	for _, pod := range w.list() {
		if !ended(pod) {
			w.end(pod.Name, 0)
		}
	}
	p.settled()
	if s := w.job().Status; s.CompletedIndexes != "0-2" || !finished(w.job()) || w.made["0"] != 2 || w.made["1"] != 2 || w.made["2"] != 1 {
		t.Errorf("status %+v, made %v", s, w.made)
	}
	for _, pod := range w.list() {
		if isTracked(pod) {
			t.Errorf("%s is held", pod.Name)
		}
	}
}

// A Job that is deleted and leaves its pods leaves no finalizer; a pod of
// another controller, or of a Job that another controller manages, is not
// touched.
func TestOrphans(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), work(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](3), ptr.To[int32](3) }))
	p := w.start()
	p.settled()
	names := w.list()
	w.changePod(names[1].Name, func(p *corev1.Pod) {
		p.OwnerReferences[0].Kind, p.OwnerReferences[0].APIVersion = "Work", "example.com/v1"
	})
	job := w.job()
	w.mu.Lock()
	delete(w.jobs, "default/work")
	w.mu.Unlock()
	w.changePod(names[0].Name, func(p *corev1.Pod) { p.OwnerReferences = nil }) // by the garbage collector
	p.refreshJobs()
	p.refreshPods()
	selector := metav1.FormatLabelSelector(job.Spec.Selector)
	if err := p.syncOrphan(t.Context(), orphan{namespace: "default", job: job.UID, selector: selector}); err != nil {
		t.Fatal(err)
	}
	for i, held := range []bool{false, true, false} {
		if pod := w.list()[i]; isTracked(pod) != held {
			t.Errorf("%s: %v", pod.Name, pod.Finalizers)
		}
	}
	if n := p.expect.byJob[job.UID]; n != nil {
		t.Errorf("something is known of the Job: %+v", n)
	}
	other := newWorld(t, w.clock, work(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/queue") }))
	p = other.start()
	p.settled()
	if other.writes != 0 {
		t.Errorf("%d writes for a Job of another controller", other.writes)
	}
}

// Pods that match are adopted with the finalizer, and released without it.
func TestAdoptionAndRelease(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), work(nil))
	w.mu.Lock()
	w.pods["bare"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bare", Namespace: "default", UID: "bare", Labels: map[string]string{"job": "work"}, ResourceVersion: w.next()}}
	w.mu.Unlock()
	p := w.start()
	p.settled()
	if pods := w.list(); len(pods) != 1 || !isTracked(pods[0]) || !metav1.IsControlledBy(pods[0], w.job()) {
		t.Fatalf("%+v", pods)
	}
	w.changePod("bare", func(p *corev1.Pod) { p.Labels = nil })
	p.settled()
	pods := w.list()
	if len(pods) != 2 || isTracked(pods[0]) || len(pods[0].OwnerReferences) != 0 {
		t.Errorf("%+v", pods)
	}
}

// 10,000 indexes: no sync makes more than 500 pods or counts more than 500, and
// the status stays short.
func TestManyIndexes(t *testing.T) {
	w := newWorld(t, clocktesting.NewFakePassiveClock(start), indexedWork(2000, 10_000, nil))
	w.check = checked(t)
	longest := 0
	p := w.start()
	for syncs := 0; !finished(w.job()); syncs++ {
		if syncs > 200 {
			t.Fatalf("status %+v", w.job().Status)
		}
		before := w.writes
		if err := p.look(); err != nil {
			t.Fatal(err)
		}
		if n := w.writes - before; n > 2*burst+5 {
			t.Fatalf("one sync writes %d times", n)
		}
		longest = max(longest, len(w.job().Status.CompletedIndexes))
		w.mu.Lock()
		for name, pod := range w.pods {
			if !ended(pod) {
				pod = pod.DeepCopy()
				pod.Status.Phase, pod.ResourceVersion = corev1.PodSucceeded, w.next()
				w.pods[name] = pod
			}
		}
		w.mu.Unlock()
	}
	if s := w.job().Status; s.CompletedIndexes != "0-9999" || s.Succeeded != 10_000 || longest > 1000 {
		t.Errorf("status %+v, longest %d", s, longest)
	}
	for i, n := range w.made {
		if n != 1 {
			t.Fatalf("%d pods of index %s", n, i)
		}
	}
}

// By the clock: a deadline ends a Job and a failed pod is replaced after 10 s,
// with no event from anywhere.
func TestTime(t *testing.T) {
	for name, change := range map[string]func(*batchv1.Job){
		"deadline": func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) },
		"back-off": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				w := newWorld(t, clock.RealClock{}, work(change))
				p := w.start()
				done := make(chan struct{})
				go func() { defer close(done); p.Loop.Run(ctx) }()
				pass := func(d time.Duration) {
					time.Sleep(d)
					synctest.Wait()
					p.refreshJobs()
					p.refreshPods()
					time.Sleep(time.Second)
					synctest.Wait()
				}
				pass(time.Second)
				if n := len(w.list()); n != 1 {
					t.Errorf("%d pods", n)
				}
				if name == "deadline" {
					pass(55 * time.Second)
					if trueCondition(w.job(), batchv1.JobFailureTarget) != nil {
						t.Error("failed before the deadline")
					}
					pass(5 * time.Second)
					pass(time.Second)
					if got := conditions(w.job()); got != "FailureTarget:DeadlineExceeded Failed:DeadlineExceeded" {
						t.Error(got)
					}
				} else {
					w.end("work-00001", 1)
					pass(7 * time.Second)
					if n := len(w.list()); n != 1 {
						t.Errorf("%d pods before the back-off was over", n)
					}
					pass(100 * time.Millisecond) // the caches have what was written
					time.Sleep(4 * time.Second)
					synctest.Wait()
					if n := len(w.list()); n != 2 {
						t.Errorf("%d pods after the back-off", n)
					}
				}
				cancel()
				<-done
			})
		})
	}
}

// A clock that is set by a day, back or forward, makes no pod twice and ends no Job
// before its time. The next try comes after its back-off by the new clock; that of an
// index, which goes by its pod's end alone, when the clock is right again.
func TestClockJumps(t *testing.T) {
	const day = 24 * time.Hour
	for name, tt := range map[string]struct {
		job    *batchv1.Job
		jump   time.Duration
		after  int // pods at once after the jump
		due    int // when the back-off is over by the new clock
		mended int // when the clock is right again
	}{
		"back":              {work(nil), -day, 1, 2, 2},
		"forward":           {work(nil), day, 2, 2, 2},
		"back, an index":    {indexedWork(1, 1, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](3) }), -day, 1, 1, 2},
		"forward, an index": {indexedWork(1, 1, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](3) }), day, 2, 2, 2},
		"back, a deadline":  {work(func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](3600) }), -day, 1, 2, 2},
		"a little back":     {work(nil), -time.Second, 1, 2, 2},
		"back to 1970":      {work(nil), time.Unix(0, 0).Sub(start), 1, 2, 2},
		"a century forward": {work(nil), 100 * 365 * day, 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			clk := clocktesting.NewFakePassiveClock(start)
			w := newWorld(t, clk, tt.job)
			p := w.start()
			p.settled()
			first := w.list()[0].Name
			w.run(first)
			w.end(first, 1)
			p.settled()
			for _, step := range []struct {
				what string
				now  time.Time
				want int
			}{
				{"before the back-off is over", start.Add(time.Second), 1},
				{"the clock is set", start.Add(tt.jump), tt.after},
				{"the back-off is over", start.Add(tt.jump + firstPodBackoff + time.Second), tt.due},
				{"the clock is right", start.Add(firstPodBackoff + 3*time.Second), tt.mended},
			} {
				clk.SetTime(step.now)
				p.settled() // fails where it writes for ever
				if n := len(w.list()); n != step.want {
					t.Fatalf("%s: %d pods, want %d", step.what, n, step.want)
				}
			}
			for _, pod := range w.list() {
				if !ended(pod) {
					w.end(pod.Name, 0)
				}
			}
			p.settled()
			if s := w.job().Status; conditions(w.job()) != "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached" || s.Succeeded != 1 || s.Failed != 1 {
				t.Errorf("%s: status %+v", conditions(w.job()), s)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for data, want := range map[string]int{"": 5, "{}": 5, `{"concurrentJobSyncs":9}`: 9} {
		if c, err := readConfig([]byte(data)); err != nil || c.ConcurrentJobSyncs != want {
			t.Errorf("%s: %+v, %v", data, c, err)
		}
	}
	for _, data := range []string{`{"concurrentJobSyncs":0}`, `{"concurrentJobSyncs":100000}`, `{"other":1}`, `[]`} {
		if _, err := readConfig([]byte(data)); err == nil {
			t.Errorf("%s is taken", data)
		}
	}
}

// The label that users choose has a bounded number of values.
func TestNamesOfOtherControllersAreBounded(t *testing.T) {
	b := &bounded{names: map[string]struct{}{}}
	for i := range 10_000 {
		b.name(fmt.Sprint("example.com/", i))
	}
	if len(b.names) != maxNames || b.name("example.com/0") != "example.com/0" || b.name("new") != "other" {
		t.Errorf("%d names", len(b.names))
	}
}
