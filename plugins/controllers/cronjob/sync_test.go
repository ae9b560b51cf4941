package cronjob

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// running has one Job of 10:00 that runs.
func running(policy batchv1.ConcurrencyPolicy) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) {
		cj.Spec.ConcurrencyPolicy = policy
		cj.Status.Active = []corev1.ObjectReference{active("tick-29627160")}
		cj.Status.LastScheduleTime = stamp("2026-05-01T10:00:00Z")
	}
}

func schedule(text string) func(*batchv1.CronJob) {
	return func(cj *batchv1.CronJob) { cj.Spec.Schedule = text }
}

// What one sync does: which Jobs there are then, which are active, which events
// are told, and when the next sync comes.
func TestSync(t *testing.T) {
	old := func(n int) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.StartTime = &metav1.Time{Time: at("2026-05-01T00:00:00Z").Add(time.Duration(n) * time.Hour)}
		}
	}
	tests := []struct {
		name   string
		now    string
		change func(*batchv1.CronJob)
		jobs   []*batchv1.Job
		want   string // names of the Jobs then
		active string
		next   time.Duration // less the padding; 0 is never
		events []string
	}{
		{name: "nothing is due", now: "2026-05-01T00:20:00Z", next: 40 * time.Minute},
		{name: "a start is due", now: "2026-05-01T10:00:00.1Z", want: "tick-29627160", active: "tick-29627160", next: time.Hour - 100*time.Millisecond,
			events: []string{"Normal SuccessfulCreate Created job tick-29627160"}},
		{name: "it was made already", now: "2026-05-01T10:20:00Z", change: running(batchv1.AllowConcurrent), jobs: []*batchv1.Job{job("tick-29627160", "", nil)},
			want: "tick-29627160", active: "tick-29627160", next: 40 * time.Minute},
		{name: "beside one that runs", now: "2026-05-01T11:00:00Z", change: running(batchv1.AllowConcurrent), jobs: []*batchv1.Job{job("tick-29627160", "", nil)},
			want: "tick-29627160 tick-29627220", active: "tick-29627160 tick-29627220", next: time.Hour, events: []string{"Normal SuccessfulCreate Created job tick-29627220"}},
		{name: "not beside one that runs", now: "2026-05-01T11:00:00Z", change: running(batchv1.ForbidConcurrent), jobs: []*batchv1.Job{job("tick-29627160", "", nil)},
			want: "tick-29627160", active: "tick-29627160", next: time.Hour,
			events: []string{"Normal JobAlreadyActive Not starting job because prior execution is running and concurrency policy is Forbid"}},
		{name: "in its place", now: "2026-05-01T11:00:00Z", change: running(batchv1.ReplaceConcurrent), jobs: []*batchv1.Job{job("tick-29627160", "", nil)},
			want: "tick-29627220", active: "tick-29627220", next: time.Hour,
			events: []string{"Normal SuccessfulDelete Deleted job tick-29627160", "Normal SuccessfulCreate Created job tick-29627220"}},
		{name: "the one before ended", now: "2026-05-01T10:30:00Z", change: running(batchv1.ForbidConcurrent), jobs: []*batchv1.Job{job("tick-29627160", batchv1.JobComplete, nil)},
			want: "tick-29627160", next: 30 * time.Minute, events: []string{"Normal SawCompletedJob Saw completed job: tick-29627160, condition: Complete"}},
		{name: "the one before failed", now: "2026-05-01T11:00:00Z", change: running(batchv1.ForbidConcurrent), jobs: []*batchv1.Job{job("tick-29627160", batchv1.JobFailed, nil)},
			want: "tick-29627160 tick-29627220", active: "tick-29627220", next: time.Hour,
			events: []string{"Normal SawCompletedJob Saw completed job: tick-29627160, condition: Failed", "Normal SuccessfulCreate Created job tick-29627220"}},
		{name: "the one before is gone", now: "2026-05-01T10:30:00Z", change: running(batchv1.ForbidConcurrent), next: 30 * time.Minute,
			events: []string{"Normal MissingJob Active job went missing: tick-29627160"}},
		{name: "one was made by hand", now: "2026-05-01T00:20:00Z", jobs: []*batchv1.Job{job("by-hand", "", nil)}, want: "by-hand", next: 40 * time.Minute,
			events: []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: by-hand"}},
		{name: "suspended", now: "2026-05-01T10:00:00Z", change: func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) }},
		{name: "being deleted", now: "2026-05-01T10:00:00Z", change: func(cj *batchv1.CronJob) {
			cj.DeletionTimestamp, cj.Finalizers = stamp("2026-05-01T09:00:00Z"), []string{"foregroundDeletion"}
		}},
		{name: "within the deadline", now: "2026-05-01T10:00:30Z", change: func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](60) },
			want: "tick-29627160", active: "tick-29627160", next: time.Hour - 30*time.Second, events: []string{"Normal SuccessfulCreate Created job tick-29627160"}},
		{name: "past the deadline", now: "2026-05-01T10:20:00Z", change: func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](60) }, next: 40 * time.Minute},
		{name: "many missed", now: "2026-05-11T10:20:00Z", want: "tick-29641560", active: "tick-29641560", next: 40 * time.Minute,
			events: []string{"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew", "Normal SuccessfulCreate Created job tick-29641560"}},
		{name: "half a million missed", now: "2027-05-01T10:20:30Z", change: schedule("* * * * *"), want: "tick-30152780", active: "tick-30152780", next: 30 * time.Second,
			events: []string{"Warning TooManyMissedTimes too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew", "Normal SuccessfulCreate Created job tick-30152780"}},
		{name: "a zone that is none", now: "2026-05-01T10:00:00Z", change: func(cj *batchv1.CronJob) { cj.Spec.TimeZone = ptr.To("Mars/Olympus") },
			events: []string{`Warning UnknownTimeZone invalid timeZone: "Mars/Olympus": unknown time zone Mars/Olympus`}},
		{name: "a zone in the schedule", now: "2026-05-01T10:00:00Z", change: schedule("TZ=Asia/Kolkata 30 15 * * *"), want: "tick-29627160", active: "tick-29627160", next: 24 * time.Hour,
			events: []string{
				`Warning UnsupportedSchedule CRON_TZ or TZ used in schedule "TZ=Asia/Kolkata 30 15 * * *" is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details`,
				"Normal SuccessfulCreate Created job tick-29627160",
			}},
		{name: "no schedule", now: "2026-05-01T10:00:00Z", change: schedule("often"),
			events: []string{`Warning UnparseableSchedule unparseable schedule: "often" : expected exactly 5 fields, found 1: [often]`}},
		{name: "a schedule without days", now: "2026-05-01T10:00:00Z", change: schedule("0 0 30 2 *"),
			events: []string{"Warning InvalidSchedule invalid schedule: 0 0 30 2 * : time difference between two schedules is less than 1 second"}},
		{name: "history", now: "2026-05-01T00:20:00Z", next: 40 * time.Minute, want: "b c d f y",
			jobs: []*batchv1.Job{job("d", batchv1.JobComplete, old(5)), job("a", batchv1.JobComplete, old(1)), job("b", batchv1.JobComplete, old(2)), job("c", batchv1.JobComplete, old(3)),
				job("e", batchv1.JobFailed, old(1)), job("f", batchv1.JobFailed, nil), job("y", "", nil)},
			events: []string{"Normal SuccessfulDelete Deleted job a", "Normal SuccessfulDelete Deleted job e", "Warning UnexpectedJob Saw a job that the controller did not create or forgot: y"}},
		{name: "no history", now: "2026-05-01T00:20:00Z", next: 40 * time.Minute,
			change: func(cj *batchv1.CronJob) {
				cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = ptr.To[int32](0), ptr.To[int32](0)
			},
			jobs:   []*batchv1.Job{job("a", batchv1.JobComplete, nil), job("b", batchv1.JobFailed, nil)},
			events: []string{"Normal SuccessfulDelete Deleted job a", "Normal SuccessfulDelete Deleted job b"}},
		{name: "all of history", now: "2026-05-01T00:20:00Z", next: 40 * time.Minute, want: "a b c d",
			change: func(cj *batchv1.CronJob) {
				cj.Spec.SuccessfulJobsHistoryLimit, cj.Spec.FailedJobsHistoryLimit = nil, nil
			},
			jobs: []*batchv1.Job{job("a", batchv1.JobComplete, nil), job("b", batchv1.JobComplete, nil), job("c", batchv1.JobComplete, nil), job("d", batchv1.JobComplete, nil)}},
		{name: "Jobs of another of the same name", now: "2026-05-01T00:20:00Z", next: 40 * time.Minute, want: "a b",
			change: func(cj *batchv1.CronJob) { cj.Spec.SuccessfulJobsHistoryLimit = ptr.To[int32](0) },
			jobs: []*batchv1.Job{
				job("a", batchv1.JobComplete, func(j *batchv1.Job) { j.OwnerReferences[0].UID = "before" }),
				job("b", batchv1.JobComplete, func(j *batchv1.Job) { j.OwnerReferences[0].Kind, j.OwnerReferences[0].UID = "Workflow", "other" }),
			}},
		{name: "its name is taken by another", now: "2026-05-01T10:00:00Z", want: "tick-29627160", next: time.Hour,
			jobs: []*batchv1.Job{job("tick-29627160", "", func(j *batchv1.Job) { j.OwnerReferences = nil })}},
		{name: "made before a crash", now: "2026-05-01T10:00:10Z", want: "tick-29627160", active: "tick-29627160", next: time.Hour - 10*time.Second,
			jobs:   []*batchv1.Job{job("tick-29627160", "", nil)},
			events: []string{"Warning UnexpectedJob Saw a job that the controller did not create or forgot: tick-29627160"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []runtime.Object{cronJob(tt.change)}
			for _, j := range tt.jobs {
				objects = append(objects, j)
			}
			w := newWorld(t, at(tt.now), objects...)
			wait := next(t, w.sync())
			if tt.next > 0 {
				wait -= padding
			}
			if wait != tt.next {
				t.Errorf("the next sync is after %v, want %v", wait, tt.next)
			}
			if got := w.names(); got != tt.want {
				t.Errorf("jobs %q, want %q", got, tt.want)
			}
			var names []string
			for _, a := range w.crons()[0].Status.Active {
				names = append(names, a.Name)
			}
			if got := strings.Join(names, " "); got != tt.active {
				t.Errorf("active %q, want %q", got, tt.active)
			}
			if !slices.Equal(w.events, tt.events) {
				t.Errorf("events\n%s\nwant\n%s", strings.Join(w.events, "\n"), strings.Join(tt.events, "\n"))
			}
		})
	}
}

// A Job has the template's labels and annotations, its start in the zone of the
// spec, and the CronJob as its controller.
func TestJob(t *testing.T) {
	w := newWorld(t, at("2026-05-01T10:00:05Z"), cronJob(func(cj *batchv1.CronJob) {
		cj.Spec.TimeZone = ptr.To("America/St_Johns")
		cj.Spec.Schedule = "30 7 * * *"
	}))
	next(t, w.sync())
	if len(w.jobs()) != 1 {
		t.Fatalf("jobs: %s", w.names())
	}
	j, cj := w.jobs()[0], w.crons()[0]
	if want := map[string]string{"x": "y", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-05-01T07:30:00-02:30"}; !maps.Equal(j.Annotations, want) {
		t.Errorf("annotations %v, want %v", j.Annotations, want)
	}
	if !maps.Equal(j.Labels, map[string]string{"a": "b"}) || !metav1.IsControlledBy(j, &cj) {
		t.Errorf("labels %v, owners %v", j.Labels, j.OwnerReferences)
	}
	want := corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "default", Name: j.Name, UID: j.UID}
	got := cj.Status.Active[0]
	got.ResourceVersion = ""
	if got != want {
		t.Errorf("active is %v, want %v", got, want)
	}
	if !cj.Status.LastScheduleTime.Equal(stamp("2026-05-01T10:00:00Z")) {
		t.Errorf("last start is %v", cj.Status.LastScheduleTime)
	}
}

// The time of the last success is the latest of all Jobs that are complete,
// active or not.
func TestLastSuccessfulTime(t *testing.T) {
	done := func(text string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletionTime = stamp(text) }
	}
	w := newWorld(t, at("2026-05-01T00:20:00Z"), cronJob(nil),
		job("a", batchv1.JobComplete, done("2026-05-01T00:05:00Z")), job("b", batchv1.JobComplete, done("2026-05-01T00:15:00Z")),
		job("c", batchv1.JobComplete, done("2026-05-01T00:10:00Z")), job("d", batchv1.JobFailed, done("2026-05-01T00:18:00Z")))
	next(t, w.sync())
	if got := w.crons()[0].Status.LastSuccessfulTime; !got.Equal(stamp("2026-05-01T00:15:00Z")) {
		t.Errorf("last success at %v", got)
	}
	writes := w.writes
	next(t, w.sync())
	if w.writes != writes {
		t.Error("a status without changes was written")
	}
}

// Refusals are told, do not end the CronJob, and leave no second Job behind.
func TestRefused(t *testing.T) {
	w := newWorld(t, at("2026-05-01T10:00:00Z"), cronJob(nil))
	w.refuse = func(a k8stesting.Action) error {
		if a.Matches("create", "jobs") {
			return forbidden("tick-29627160")
		}
		return nil
	}
	if err := w.sync(); !apierrors.IsForbidden(err) {
		t.Errorf("a quota answers %v", err)
	}
	if want := `Warning FailedCreate Error creating job: jobs.batch "tick-29627160" is forbidden: exceeded quota: no-jobs`; !slices.Equal(w.events, []string{want}) {
		t.Errorf("events %q, want %q", w.events, want)
	}
	w.refuse = nil
	next(t, w.sync())
	if w.names() != "tick-29627160" {
		t.Errorf("jobs %q", w.names())
	}
}

// A namespace that is being deleted takes no Jobs: no event, and no retry.
func TestNamespaceTerminating(t *testing.T) {
	w := newWorld(t, at("2026-05-01T10:00:00Z"), cronJob(nil))
	w.refuse = func(a k8stesting.Action) error {
		refusal := forbidden("tick-29627160").(*apierrors.StatusError)
		refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return refusal
	}
	if err := w.sync(); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || len(w.events) > 0 {
		t.Errorf("error %v, events %v", err, w.events)
	}
}

// A Job that is deleted for the next one must be gone from the API first.
func TestReplaceRefused(t *testing.T) {
	w := newWorld(t, at("2026-05-01T11:00:00Z"), cronJob(running(batchv1.ReplaceConcurrent)), job("tick-29627160", "", nil))
	w.refuse = func(a k8stesting.Action) error {
		if a.Matches("delete", "jobs") {
			return forbidden("tick-29627160")
		}
		return nil
	}
	if err := w.sync(); err == nil || w.names() != "tick-29627160" {
		t.Errorf("error %v, jobs %q", err, w.names())
	}
	if len(w.events) != 1 || !strings.HasPrefix(w.events[0], "Warning FailedDelete Deleted job: ") {
		t.Errorf("events %q", w.events)
	}
}

// A cache of CronJobs that is behind does not take the Jobs of the start before
// for those of another: the API is asked.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, at("2026-05-01T10:30:00Z"), cronJob(running(batchv1.AllowConcurrent)), job("tick-29627160", "", nil))
	s := w.controller()
	if err := s.cronJobs.Update(cronJob(nil)); err != nil { // as it was before the start
		t.Fatal(err)
	}
	if wait := next(t, s.sync(t.Context(), "default/tick")); wait != 30*time.Minute+padding {
		t.Errorf("the next sync is after %v", wait)
	}
	if w.names() != "tick-29627160" || len(w.crons()[0].Status.Active) != 1 {
		t.Errorf("jobs %q, status %v", w.names(), w.crons()[0].Status)
	}
}

// simulate lets nine hours go by. Jobs take 20 minutes, and each fourth fails. The controller is started anew after each write at which it is killed.
func simulate(t *testing.T, policy batchv1.ConcurrencyPolicy, kill int, refuse func(k8stesting.Action) error) (*world, map[types.UID]int) {
	t.Helper()
	w := newWorld(t, at("2026-05-01T00:00:30Z"), cronJob(func(cj *batchv1.CronJob) { cj.Spec.ConcurrencyPolicy = policy }))
	w.kill, w.refuse = kill, refuse
	made := map[types.UID]int{} // by UID, which has the name: two of one name would be seen
	for ; w.now.Before(at("2026-05-01T09:30:00Z")); w.now = w.now.Add(20 * time.Minute) {
		for try := 0; ; try++ {
			writes, err := w.writes, w.sync()
			if w.kill > 0 && w.writes >= w.kill {
				w.kill = 0 // another controller takes over
				continue
			}
			if (err == nil || next(t, errorOrNil(err)) > 0) && w.writes == writes {
				break
			}
			if try > 100 {
				t.Fatalf("at %v it does not come to rest: %v", w.now, err)
			}
		}
		for _, j := range w.jobs() {
			if made[j.UID] == 0 {
				made[j.UID] = len(made) + 1
			}
			if outcome(j) == "" && w.now.Sub(j.CreationTimestamp.Time) >= 20*time.Minute {
				done := job(j.Name, batchv1.JobComplete, nil)
				if made[j.UID]%4 == 0 {
					done = job(j.Name, batchv1.JobFailed, nil)
				}
				j.Status = done.Status
				j.Status.StartTime, j.Status.CompletionTime = j.CreationTimestamp.DeepCopy(), &metav1.Time{Time: w.now}
				if err := w.client.Tracker().Update(batchv1.SchemeGroupVersion.WithResource("jobs"), j, j.Namespace); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return w, made
}

// errorOrNil leaves out what a refused or killed write answers: it is tried again.
func errorOrNil(err error) error {
	var status apierrors.APIStatus
	if errors.Is(err, errKilled) || errors.As(err, &status) || err != nil && strings.Contains(err.Error(), "could not replace") {
		return nil
	}
	return err
}

// starts is how many there are in a simulation.
const starts = 9

func end(w *world) string {
	s := w.crons()[0].Status
	var active []string
	for _, a := range s.Active {
		active = append(active, a.Name)
	}
	return fmt.Sprintf("jobs %s; active %v; last %v; success %v", w.names(), active, s.LastScheduleTime.UTC(), s.LastSuccessfulTime.UTC())
}

// A controller that is killed after any of its writes, and started again, makes
// each Job once and ends where one that lives on ends.
func TestKilledAtEachWrite(t *testing.T) {
	for _, policy := range []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent} {
		w, made := simulate(t, policy, 0, nil)
		want, writes := end(w), w.writes
		if len(made) != starts || writes < 2*starts {
			t.Fatalf("%s: %d jobs by %d writes", policy, len(made), writes)
		}
		for kill := 1; kill <= writes; kill++ {
			w, made := simulate(t, policy, kill, nil)
			if got := end(w); got != want || len(made) != starts {
				t.Errorf("%s, killed after write %d: %d jobs, %s; want %s", policy, kill, len(made), got, want)
			}
		}
	}
}

// The same holds where every second write is refused.
func TestHalfOfTheWritesRefused(t *testing.T) {
	w, _ := simulate(t, batchv1.AllowConcurrent, 0, nil)
	want := end(w)
	dice := rand.New(rand.NewPCG(1, 2))
	w, made := simulate(t, batchv1.AllowConcurrent, 0, func(a k8stesting.Action) error {
		if dice.IntN(2) == 0 {
			return apierrors.NewInternalError(errors.New("a webhook is down"))
		}
		return nil
	})
	if got := end(w); got != want || len(made) != starts {
		t.Errorf("%d jobs, %s; want %s", len(made), got, want)
	}
}

// TestBehindOwnStatus: a Job that this controller deleted is not missed, where the cache
// does not have yet that it is off the list.
func TestBehindOwnStatus(t *testing.T) {
	cj := cronJob(func(cj *batchv1.CronJob) {
		cj.Status.Active, cj.Spec.Suspend = []corev1.ObjectReference{active("tick-1")}, ptr.To(true)
	})
	w := newWorld(t, at("2026-05-01T00:40:00Z"), cj)
	s := w.controller()
	fresh := cj.DeepCopy()
	fresh.Status.Active = nil
	if _, err := w.client.BatchV1().CronJobs("default").UpdateStatus(t.Context(), fresh, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.sync(t.Context(), "default/tick"); err != nil {
		t.Error(err)
	}
	if events := s.Recorder.(*record.FakeRecorder).Events; len(events) > 0 {
		t.Errorf("event %s", <-events)
	}
}
