package api_test

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestDeletePod compares deletes of the kernel's own with deletes by HTTP.
func TestDeletePod(t *testing.T) {
	s := start(t, t.TempDir())
	pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
	ways := map[string]func(name string, o metav1.DeleteOptions) error{
		"direct": func(name string, o metav1.DeleteOptions) error {
			return s.DeletePod(t.Context(), admin, "default", name, o)
		},
		"HTTP": func(name string, o metav1.DeleteOptions) error { return pods.Delete(t.Context(), name, o) },
	}
	bound := func(name string, grace int64) *corev1.Pod {
		p := pod(name)
		p.Spec.NodeName, p.Spec.TerminationGracePeriodSeconds = "somewhere", &grace
		return p
	}
	kept := bound("kept", 0)
	kept.Finalizers = []string{"example.com/keep"}
	other := types.UID("other")
	left := map[string]map[string]string{}
	for way, remove := range ways {
		left[way] = map[string]string{}
		for _, c := range []struct {
			pod     *corev1.Pod
			options metav1.DeleteOptions
		}{
			{pod: pod("unbound")},
			{pod: bound("at-once", 0)},
			{pod: bound("in-a-while", 30)},
			{pod: bound("now", 30), options: metav1.DeleteOptions{GracePeriodSeconds: new(int64)}},
			{pod: kept},
			{pod: bound("another", 0), options: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}},
		} {
			made, err := pods.Create(t.Context(), c.pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			reason := string(apierrors.ReasonForError(remove(made.Name, c.options)))
			switch got, err := pods.Get(t.Context(), made.Name, metav1.GetOptions{}); {
			case apierrors.IsNotFound(err):
				reason += " gone"
			case err != nil:
				t.Fatal(err)
			case got.DeletionTimestamp != nil:
				reason += " going"
			}
			left[way][made.Name] = reason
			now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
			if err := pods.Delete(t.Context(), made.Name, now); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			if len(c.pod.Finalizers) > 0 {
				if _, err := pods.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		left[way]["nobody"] = string(apierrors.ReasonForError(remove("nobody", metav1.DeleteOptions{})))
	}
	for name, by := range left["HTTP"] {
		if left["direct"][name] != by {
			t.Errorf("%s: %q directly, %q by HTTP", name, left["direct"][name], by)
		}
	}
	for name, want := range map[string]string{
		"unbound": " gone", "at-once": " gone", "in-a-while": " going", "now": " gone", "kept": " going", "another": "Conflict", "nobody": "NotFound",
	} {
		if left["direct"][name] != want {
			t.Errorf("%s: %q, want %q", name, left["direct"][name], want)
		}
	}
}

// A pod that a delete marks is kept in memory as it was marked: it is what a server that has only
// the stored bytes makes of them. Readers of the pod before see nothing of it.
func TestDeleteKeepsWhatIsStored(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]*corev1.Pod{}
	t.Run("delete", func(t *testing.T) {
		s := start(t, dir)
		pods := kubernetes.NewForConfigOrDie(s.ClientConfig(admin)).CoreV1().Pods("default")
		orphan, foreground := metav1.DeletePropagationOrphan, metav1.DeletePropagationForeground
		grace, now := int64(90), int64(0)
		for name, options := range map[string]metav1.DeleteOptions{
			"plain": {}, "grace": {GracePeriodSeconds: &grace}, "orphan": {PropagationPolicy: &orphan}, "foreground": {PropagationPolicy: &foreground}, "held": {GracePeriodSeconds: &now},
		} {
			made := richPod(name)
			made.Spec.NodeName = "n1"
			if name != "held" {
				made.Finalizers = nil
			}
			if _, err := pods.Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second changes nothing
				before := stored(t, s, name)
				was := before.DeepCopy()
				if err := pods.Delete(t.Context(), name, options); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(before, was) {
					t.Errorf("%s: the pod that readers have changed: %+v", name, before)
				}
			}
			read, err := pods.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			kept[name] = stored(t, s, name)
			if read.DeletionTimestamp == nil || !apiequality.Semantic.DeepEqual(read, kept[name]) {
				t.Errorf("%s read:\n%+v\nkept:\n%+v", name, read, kept[name])
			}
		}
	})
	t.Run("again", func(t *testing.T) {
		s := start(t, dir)
		for name, pod := range kept {
			got := stored(t, s, name)
			if !apiequality.Semantic.DeepEqual(got, pod) {
				t.Errorf("%s decoded:\n%#v\nkept:\n%#v", name, got, pod)
			}
			if a, b := got.DeletionTimestamp, pod.DeletionTimestamp; !reflect.DeepEqual(a, b) {
				t.Errorf("%s: deleted at %#v, kept as %#v", name, a, b)
			}
		}
	})
}
