package cronjob

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/plugins/controllers/queue"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func stamp(text string) *metav1.Time { return &metav1.Time{Time: at(text)} }

// cron is a CronJob of 1 May 2026, whose limits are the API's defaults.
func cronJob(change func(*batchv1.CronJob)) *batchv1.CronJob {
	cj := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "tick", Namespace: "default", UID: "cron", CreationTimestamp: *stamp("2026-05-01T00:00:30Z")},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 * * * *", ConcurrencyPolicy: batchv1.AllowConcurrent, Suspend: ptr.To(false),
			SuccessfulJobsHistoryLimit: ptr.To[int32](3), FailedJobsHistoryLimit: ptr.To[int32](1),
			JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"x": "y"}}},
		},
	}
	if change != nil {
		change(cj)
	}
	return cj
}

// job is a Job of the CronJob; outcome is a condition that is true, or empty.
func job(name string, outcome batchv1.JobConditionType, change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "default", UID: types.UID("uid-" + name),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cronJob(nil), gvk)},
	}}
	if outcome != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: outcome, Status: corev1.ConditionTrue}}
		j.Status.CompletionTime = stamp("2026-05-01T00:30:00Z")
	}
	if change != nil {
		change(j)
	}
	return j
}

func active(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "default", Name: name, UID: types.UID("uid-" + name)}
}

// world is an API with its objects, which outlives controllers.
type world struct {
	t      *testing.T
	client *fake.Clientset
	now    time.Time
	events []string
	writes int // how many there were
	kill   int // the write after which the controller is dead; 0 is never
	refuse func(a k8stesting.Action) error
}

var errKilled = errors.New("the controller is dead")

func newWorld(t *testing.T, now time.Time, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(objects...), now: now}
	w.client.PrependReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if w.kill > 0 && w.writes >= w.kill {
			return true, nil, errKilled
		}
		if !slices.Contains([]string{"create", "update", "delete", "patch"}, a.GetVerb()) {
			return false, nil, nil
		}
		w.writes++
		if w.refuse != nil {
			if err := w.refuse(a); err != nil {
				return true, nil, err
			}
		}
		if a.Matches("create", "jobs") {
			o := a.(k8stesting.CreateAction).GetObject().(*batchv1.Job)
			o.UID = types.UID("uid-" + o.Name)
			o.CreationTimestamp = metav1.NewTime(w.now)
		}
		return false, nil, nil
	})
	return w
}

// controller is one that has just started: its caches have what the API has.
func (w *world) controller() *scheduler {
	w.t.Helper()
	s, err := build(w.client, informers.NewSharedInformerFactory(w.client, 0), slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	s.wall = func() time.Time { return w.now }
	s.Recorder = record.NewFakeRecorder(10000)
	for i := range w.crons() {
		if err := s.cronJobs.Add(&w.crons()[i]); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, j := range w.jobs() {
		if err := s.jobs.Add(j); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

func (w *world) tracked(resource string) runtime.Object {
	w.t.Helper()
	gvr := batchv1.SchemeGroupVersion.WithResource(resource)
	kinds := map[string]schema.GroupVersionKind{"jobs": batchv1.SchemeGroupVersion.WithKind("Job"), "cronjobs": gvk}
	list, err := w.client.Tracker().List(gvr, kinds[resource], metav1.NamespaceAll)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) crons() []batchv1.CronJob { return w.tracked("cronjobs").(*batchv1.CronJobList).Items }

func (w *world) jobs() []*batchv1.Job {
	var list []*batchv1.Job
	for _, j := range w.tracked("jobs").(*batchv1.JobList).Items {
		list = append(list, &j)
	}
	return list
}

func (w *world) names() string {
	var names []string
	for _, j := range w.jobs() {
		names = append(names, j.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// sync is one sync by a controller that has just started.
func (w *world) sync() error {
	s := w.controller()
	err := s.sync(w.t.Context(), "default/tick")
	recorder := s.Recorder.(*record.FakeRecorder)
	for len(recorder.Events) > 0 {
		w.events = append(w.events, <-recorder.Events)
	}
	return err
}

// next is how long after a sync the next one comes, zero if none does.
func next(t *testing.T, err error) time.Duration {
	t.Helper()
	var after *queue.After
	if errors.As(err, &after) {
		return after.Delay
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0
}

func forbidden(name string) error {
	return apierrors.NewForbidden(batchv1.Resource("jobs"), name, fmt.Errorf("exceeded quota: no-jobs"))
}
