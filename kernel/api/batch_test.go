package api_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TestJobs: the pods of a Job are its own by labels that nobody chooses, those of
// one that is deleted stay, and an end stays an end.
func TestJobs(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	jobs := c.BatchV1().Jobs("default")
	create := func(name string, change func(*batchv1.Job)) (*batchv1.Job, error) {
		o := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: template(corev1.RestartPolicyNever)}}
		if change != nil {
			change(o)
		}
		return jobs.Create(ctx, o, metav1.CreateOptions{})
	}
	o, err := create("j", nil)
	if err != nil {
		t.Fatal(err)
	}
	generated := map[string]string{"job-name": "j", batchv1.JobNameLabel: "j", "controller-uid": string(o.UID), batchv1.ControllerUidLabel: string(o.UID)}
	for key, value := range generated {
		if got := o.Spec.Template.Labels[key]; got != value {
			t.Errorf("label %s of the template is %q", key, got)
		}
	}
	if !maps.Equal(o.Spec.Selector.MatchLabels, map[string]string{batchv1.ControllerUidLabel: string(o.UID)}) {
		t.Errorf("selector %v", o.Spec.Selector)
	}
	// Another Job's pods cannot be had.
	for what, change := range map[string]func(*batchv1.Job){
		"selector": func(b *batchv1.Job) {
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(o.UID)}}
		},
		"labels": func(b *batchv1.Job) { b.Spec.Template.Labels[batchv1.ControllerUidLabel] = string(o.UID) },
		"both": func(b *batchv1.Job) {
			b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"controller-uid": string(o.UID), batchv1.ControllerUidLabel: string(o.UID)}}
			b.Spec.Template.Labels = maps.Clone(generated)
		},
	} {
		if _, err := create("thief", change); !apierrors.IsInvalid(err) {
			t.Errorf("another Job's %s: %v", what, err)
		}
	}

	done := metav1.Now().Rfc3339Copy()
	o.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &done, CompletionTime: &done, Conditions: []batchv1.JobCondition{
		{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
	}}
	if o, err = jobs.UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	undone := o.DeepCopy()
	undone.Status.Conditions = undone.Status.Conditions[:1]
	if _, err := jobs.UpdateStatus(ctx, undone, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "cannot disable the terminal Complete=True condition") {
		t.Errorf("an end taken back: %v", err)
	}
	if _, err := create("other", nil); err != nil {
		t.Fatal(err)
	}
	list, err := jobs.List(ctx, metav1.ListOptions{FieldSelector: "status.successful=1"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "j" {
		t.Errorf("selected %v, %v", list, err)
	}
	if _, err := jobs.List(ctx, metav1.ListOptions{FieldSelector: "status.failed=1"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `field label "status.failed" not supported for Job`) {
		t.Errorf("an unknown field: %v", err)
	}
	// Who says nothing of the pods keeps them, and is told so.
	told := func(name string, options metav1.DeleteOptions) int {
		t.Helper()
		request := c.BatchV1().RESTClient().Delete().Namespace("default").Resource("jobs").Body(&options)
		if name != "" {
			request = request.Name(name)
		}
		result := request.Do(ctx)
		if err := result.Error(); err != nil {
			t.Fatal(err)
		}
		var n int
		for _, w := range result.Warnings() {
			if strings.HasPrefix(w.Text, "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background") {
				n++
			}
		}
		return n
	}
	if n := told("j", metav1.DeleteOptions{}); n != 1 {
		t.Errorf("%d warnings", n)
	}
	if o, err = jobs.Get(ctx, "j", metav1.GetOptions{}); err != nil || !slices.Contains(o.Finalizers, metav1.FinalizerOrphanDependents) {
		t.Errorf("deleted without a word about pods: %v, %v", o, err)
	}
	if n := told("other", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); n != 0 {
		t.Errorf("%d warnings to who says what becomes of the pods", n)
	}
	if _, err = jobs.Get(ctx, "other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleted with its pods: %v", err)
	}
	if n := told("", metav1.DeleteOptions{}); n != 1 {
		t.Errorf("%d warnings about a collection", n)
	}
}

// TestCronJobs: schedules are read, and nothing that a client calls a schedule or
// a zone ends the server or reads a file of its choice.
func TestCronJobs(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	cronJobs := overTLS(t, s).BatchV1().CronJobs("default")
	create := func(schedule string, zone *string) error {
		_, err := cronJobs.Create(ctx, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}, Spec: batchv1.CronJobSpec{
			Schedule: schedule, TimeZone: zone, JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template(corev1.RestartPolicyOnFailure)}},
		}}, metav1.CreateOptions{})
		return err
	}
	for _, good := range []struct{ schedule, zone string }{{"*/5 * * * *", ""}, {"@hourly", "Europe/Berlin"}, {"0 0 31 2 *", "Etc/GMT+1"}} {
		var zone *string
		if good.zone != "" {
			zone = &good.zone
		}
		if err := create(good.schedule, zone); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []string{"", "* * * *", "TZ=", "TZ=0", "CRON_TZ=UTC", "TZ=UTC * * * * *", "@every", "@every -1x", "61 * * * *", "*/0 * * * *", strings.Repeat("1,", 100_000) + "1 * * *"} {
		if err := create(bad, nil); !apierrors.IsInvalid(err) {
			t.Errorf("schedule %.20q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "Local", "LOCAL", "../../etc/passwd", "/etc/passwd", "Europe/../UTC", "Europe//Berlin", "-x", "Nope/Nowhere", "a\x00b", strings.Repeat("a/", 10_000)} {
		if err := create("@daily", &bad); !apierrors.IsInvalid(err) {
			t.Errorf("zone %.20q: %v", bad, err)
		}
	}
	list, err := cronJobs.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%d are stored, %v", len(list.Items), err)
	}
	o := &list.Items[0]
	o.Status.LastScheduleTime = ptr.To(metav1.Now())
	o.Status.Active = []corev1.ObjectReference{{Kind: "Job", Name: "j"}}
	o.Spec.Suspend = ptr.To(true)
	if o, err = cronJobs.UpdateStatus(ctx, o, metav1.UpdateOptions{}); err != nil || len(o.Status.Active) != 1 || *o.Spec.Suspend {
		t.Errorf("status: %+v, %v", o, err)
	}
}
