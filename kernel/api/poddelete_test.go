package api_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
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
