package job

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// scenario is a Job from its creation to its end.
type scenario struct {
	name string
	job  *batchv1.Job
	// code is what the pod exits with: the nth of its index, or of all, from 1.
	code func(pod *corev1.Pod, n int) int32
	// user acts before the step, and says whether that is all.
	user func(w *world, step int) bool

	conditions, done, lost string
	succeeded, failed      int32
	// races: how many pods begin before the end depends on who is faster.
	races bool
}

var scenarios = []scenario{
	{
		name: "two succeed", job: work(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](2), ptr.To[int32](2) }),
		conditions: "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached", succeeded: 2,
	},
	{
		name: "the first two of a queue fail", job: work(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](2), nil }),
		code:       func(_ *corev1.Pod, n int) int32 { return failFirst(n, 2) },
		conditions: "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached", succeeded: 2, failed: 2, races: true,
	},
	{
		name: "too many fail", job: work(func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](2) }),
		code:       func(*corev1.Pod, int) int32 { return 1 },
		conditions: "FailureTarget:BackoffLimitExceeded Failed:BackoffLimitExceeded", failed: 3,
	},
	{
		name: "each index fails twice", job: indexedWork(3, 5, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](20) }),
		code:       func(_ *corev1.Pod, n int) int32 { return failFirst(n, 2) },
		conditions: "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached", done: "0-4", succeeded: 5, failed: 10,
	},
	{
		name: "limits of indexes", job: indexedWork(2, 4, func(j *batchv1.Job) {
			j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = ptr.To[int32](1<<31-1), ptr.To[int32](1)
		}),
		code: func(p *corev1.Pod, n int) int32 {
			if i, _ := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation]); i%2 == 1 {
				return 1
			}
			return failFirst(n, 1)
		},
		conditions: "FailureTarget:FailedIndexes Failed:FailedIndexes", done: "0,2", lost: "1,3", succeeded: 2, failed: 6,
	},
	{
		name: "a policy ignores and fails the index", job: indexedWork(3, 3, func(j *batchv1.Job) {
			j.Spec.BackoffLimit, j.Spec.BackoffLimitPerIndex = ptr.To[int32](1<<31-1), ptr.To[int32](3)
			j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: batchv1.PodFailurePolicyActionIgnore, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}}},
				{Action: batchv1.PodFailurePolicyActionFailIndex, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{43}}},
			}}
		}),
		code: func(p *corev1.Pod, n int) int32 {
			switch p.Annotations[batchv1.JobCompletionIndexAnnotation] {
			case "0":
				if n < 4 {
					return 42
				}
			case "1":
				return 43
			}
			return 0
		},
		conditions: "FailureTarget:FailedIndexes Failed:FailedIndexes", done: "0,2", lost: "1", succeeded: 2, failed: 1,
	},
	{
		name: "a policy fails the job", job: work(func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](2), ptr.To[int32](2)
			j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpNotIn, Values: []int32{1}}},
			}}
		}),
		code:       func(_ *corev1.Pod, n int) int32 { return map[int]int32{1: 7}[n] },
		conditions: "FailureTarget:PodFailurePolicy Failed:PodFailurePolicy", succeeded: 1, failed: 1, races: true,
	},
	{
		name: "a success policy", job: indexedWork(2, 10, func(j *batchv1.Job) {
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("0,1")}}}
		}),
		conditions: "SuccessCriteriaMet:SuccessPolicy Complete:SuccessPolicy", done: "0,1", succeeded: 2, races: true,
	},
	{
		name: "suspended and resumed", job: indexedWork(2, 2, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }),
		user: func(w *world, step int) bool {
			switch step {
			case 3, 8:
				w.changeJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) })
			case 4:
				w.changeJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })
			}
			return step > 8
		},
		conditions: "!Suspended:JobResumed SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached", done: "0,1", succeeded: 2,
	},
	{
		name: "grows and shrinks", job: indexedWork(2, 2, nil),
		code: func(p *corev1.Pod, _ int) int32 { return 0 },
		user: func(w *world, step int) bool {
			switch step {
			case 1:
				w.changeJob(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](6), ptr.To[int32](6) })
			case 2:
				w.changeJob(func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](4), ptr.To[int32](4) })
			}
			return step > 2
		},
		conditions: "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached", done: "0-3", succeeded: 4,
	},
}

func failFirst(n, failing int) int32 {
	if n <= failing {
		return 1
	}
	return 0
}

// play lets the nodes and the user act, step by step, until the Job ended.
// sync is what the controller does in a step.
func (s *scenario) play(t *testing.T, w *world, clk *clocktesting.FakePassiveClock, sync func()) {
	t.Helper()
	nth := map[string]int{} // of each pod that ran, by name
	ran := map[string]int{} // by index
	quiet := s.user == nil
	for step := range 300 {
		if s.user != nil {
			quiet = s.user(w, step)
		}
		sync()
		for _, pod := range w.list() {
			switch {
			case ended(pod):
			case pod.DeletionTimestamp != nil:
				if pod.Spec.NodeName != "" {
					w.end(pod.Name, 137)
				}
			case pod.Spec.NodeName == "":
				w.run(pod.Name)
				i := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
				ran[i]++
				nth[pod.Name] = ran[i]
			case s.code == nil:
				w.end(pod.Name, 0)
			default:
				w.end(pod.Name, s.code(pod, nth[pod.Name]))
			}
		}
		clk.SetTime(clk.Now().Add(30 * time.Minute))
		if quiet && s.over(w) {
			return
		}
	}
	t.Fatalf("no end after 300 steps: %+v", w.job().Status)
}

// over says that the Job ended and no pod waits for the controller.
func (s *scenario) over(w *world) bool {
	for _, pod := range w.list() {
		if isTracked(pod) {
			return false
		}
	}
	return finished(w.job())
}

func (s *scenario) verify(t *testing.T, w *world) {
	t.Helper()
	got := w.job().Status
	want := batchv1.JobStatus{Succeeded: s.succeeded, Failed: s.failed, CompletedIndexes: s.done}
	if got.Succeeded != want.Succeeded || got.Failed != want.Failed || got.CompletedIndexes != want.CompletedIndexes || ptr.Deref(got.FailedIndexes, "") != s.lost {
		t.Errorf("succeeded %d, failed %d, indexes %q and %q; want %d, %d, %q, %q",
			got.Succeeded, got.Failed, got.CompletedIndexes, ptr.Deref(got.FailedIndexes, ""), s.succeeded, s.failed, s.done, s.lost)
	}
	if c := conditions(w.job()); c != s.conditions {
		t.Errorf("conditions %q, want %q", c, s.conditions)
	}
	if got.Active != 0 || ptr.Deref(got.Ready, 0) != 0 || ptr.Deref(got.Terminating, 0) != 0 || len(got.UncountedTerminatedPods.Failed)+len(got.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("something is left: %+v", got)
	}
	for _, pod := range w.list() {
		if !ended(pod) {
			t.Errorf("pod %s runs on", pod.Name)
		}
	}
}

// byPods wants what the pods say that there are.
func (s *scenario) byPods(w *world) {
	s.succeeded, s.failed = 0, w.job().Status.Failed
	var numbers []int
	for _, pod := range append(w.list(), w.gone...) {
		if pod.Status.Phase == corev1.PodSucceeded {
			s.succeeded++
			i, _ := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
			numbers = append(numbers, i)
		}
	}
	if trueCondition(w.job(), batchv1.JobFailed) != nil {
		// A pod that ran when the Job failed counts as failed, though it may
		// succeed after that: the sum is what can be known.
		s.succeeded = w.job().Status.Succeeded
		s.failed = int32(len(w.list())+len(w.gone)) - s.succeeded
	}
	if s.done != "" {
		s.done = indexes(nil).with(numbers).String()
	}
}

// checked fails the test if a status breaks a rule of the API.
func checked(t *testing.T) func(old, job *batchv1.Job) {
	return func(old, job *batchv1.Job) {
		s := job.Status
		elastic := completionMode(job) == batchv1.IndexedCompletion && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
		switch {
		case s.Failed < old.Status.Failed, s.Succeeded < old.Status.Succeeded && !elastic:
			t.Errorf("a counter falls: %+v after %+v", s, old.Status)
		case ptr.Deref(s.Ready, 0) > s.Active, s.Active < 0, ptr.Deref(s.Ready, 0) < 0, ptr.Deref(s.Terminating, 0) < 0:
			t.Errorf("active %d, ready %d, terminating %d", s.Active, *s.Ready, *s.Terminating)
		case finished(job) && (s.Active > 0 || *s.Terminating > 0 || s.StartTime == nil):
			t.Errorf("ended with %+v", s)
		case finished(old):
			t.Errorf("a Job that ended is written: %+v after %+v", s, old.Status)
		case len(s.UncountedTerminatedPods.Failed)+len(s.UncountedTerminatedPods.Succeeded) > maxUncounted:
			t.Errorf("%+v pods are uncounted", s.UncountedTerminatedPods)
		}
	}
}

// A controller that is killed after any one of its writes is followed by another
// one that comes to the same end: no pod is counted twice or not at all, and no
// finalizer is left.
func TestKilledAfterEachWrite(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			all := 0
			for dieAt := 0; dieAt <= all; dieAt++ {
				clk := clocktesting.NewFakePassiveClock(start)
				w := newWorld(t, clk, s.job)
				w.dieAt, w.check = dieAt, checked(t)
				p := w.start()
				s.play(t, w, clk, func() {
					err := p.look()
					p.free()
					if w.dieAt > 0 && w.writes > w.dieAt {
						w.dieAt, p = 0, w.start()
						err = p.look()
					}
					if err != nil {
						t.Logf("killed after write %d: %v", dieAt, err)
					}
				})
				s.verify(t, w)
				if dieAt == 0 {
					all = w.writes
				}
				if t.Failed() {
					t.Fatalf("killed after write %d of %d", dieAt, all)
				}
			}
			t.Logf("killed after each of %d writes", all)
		})
	}
}

// The same ends come about where caches lag, each by itself, one write of eight
// is refused, and the controller is killed now and then.
func TestLaggingCachesAndRefusedWrites(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for seed := range uint64(40) {
				r := seeded(seed)
				clk := clocktesting.NewFakePassiveClock(start)
				w := newWorld(t, clk, s.job)
				w.check = checked(t)
				w.refuse = func(verb, resource string) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					if r.IntN(8) == 0 {
						return fmt.Errorf("%s of %s is refused", verb, resource)
					}
					return nil
				}
				p := w.start()
				s.play(t, w, clk, func() {
					for range 1 + r.IntN(4) {
						if r.IntN(2) == 0 {
							p.refreshJobs()
						}
						if r.IntN(2) == 0 {
							p.refreshPods()
						}
						if err := p.sync(t.Context(), "default/work"); errors.Is(err, errDown) {
							t.Fatal(err)
						}
					}
					if r.IntN(10) == 0 {
						p = w.start()
					}
					if s.over(w) {
						return
					}
					p.free()
				})
				if s.races {
					one := s
					one.byPods(w)
					one.verify(t, w)
				} else {
					s.verify(t, w)
				}
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}
