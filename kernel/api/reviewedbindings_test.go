package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/admission/review"
)

// bindingReviewer reviews bindings and statuses of pods, and refuses those of one.
type bindingReviewer struct {
	mu  sync.Mutex
	saw []string
}

func (*bindingReviewer) Name() string         { return "bindings" }
func (*bindingReviewer) Mutates() bool        { return false }
func (*bindingReviewer) IgnoresFailure() bool { return false }
func (*bindingReviewer) Matches(_, group, _, resource, part string) bool {
	return group == "" && resource == "pods" && (part == "binding" || part == "status")
}

func (r *bindingReviewer) Review(_ context.Context, request []byte) ([]byte, error) {
	var asked admissionv1.AdmissionRequest
	if err := json.Unmarshal(request, &asked); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.saw = append(r.saw, asked.SubResource+" "+asked.Name+" "+asked.UserInfo.Username)
	return fmt.Appendf(nil, `{"allowed":%t}`, asked.Name != "refused"), nil
}

// A plugin that reviews bindings and statuses of pods sees those of the kernel's own
// scheduler, by whichever way, and what it refuses is not done.
func TestSchedulerIsReviewed(t *testing.T) {
	var plugins reviewers
	plugins.Store(&[]review.Plugin{})
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.Admission = &plugins })
	c := overTLS(t, s).CoreV1()
	made := map[string]*corev1.Pod{}
	for _, name := range []string{"before", "alone", "together", "refused"} {
		p, err := c.Pods("default").Create(t.Context(), pod(name), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made[name] = p
	}
	if err := s.Bind(t.Context(), binding("before")); err != nil {
		t.Fatal(err)
	}
	r := &bindingReviewer{}
	plugins.Store(&[]review.Plugin{r})
	if err := s.Bind(t.Context(), binding("alone")); err != nil {
		t.Fatal(err)
	}
	failures := s.BindAll(t.Context(), []*corev1.Binding{binding("together"), binding("refused")}, nil)
	if failures[0] != nil || !apierrors.IsForbidden(failures[1]) {
		t.Errorf("together: %v", failures)
	}
	if err := s.Bind(t.Context(), binding("refused")); !apierrors.IsForbidden(err) {
		t.Errorf("refused: %v", err)
	}
	condition := &corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}
	if err := s.SetPodStatus(t.Context(), "default", "refused", made["refused"].UID, condition, nil); !apierrors.IsForbidden(err) {
		t.Errorf("status: %v", err)
	}
	for name, node := range map[string]bool{"before": true, "alone": true, "together": true, "refused": false} {
		got, err := c.Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || (got.Spec.NodeName != "") != node || name == "refused" && len(got.Status.Conditions) > 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.saw)
	want := []string{"binding alone system:kube-scheduler", "binding refused system:kube-scheduler", "binding refused system:kube-scheduler", "binding together system:kube-scheduler", "status refused system:kube-scheduler"}
	if !slices.Equal(r.saw, want) {
		t.Errorf("it saw %q", r.saw)
	}
}

// No pod of a namespace that is being deleted gets a node, by whichever way.
func TestNoBindingInEndingNamespace(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s).CoreV1()
	if _, err := c.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ServiceAccounts("ending").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		if _, err := c.Pods("ending").Create(t.Context(), pod(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Namespaces().Delete(t.Context(), "ending", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	to := func(name string) *corev1.Binding {
		b := binding(name)
		b.Namespace = "ending"
		return b
	}
	// Its end comes to admission a moment after it is stored.
	waitFor(t, func() bool {
		_, err := c.ConfigMaps("ending").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "c"}}, metav1.CreateOptions{})
		return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	})
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || !strings.Contains(err.Error(), "because it is being terminated") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("over HTTP", c.Pods("ending").Bind(t.Context(), to("one"), metav1.CreateOptions{}))
	refused("directly", s.Bind(t.Context(), to("one")))
	for _, err := range s.BindAll(t.Context(), []*corev1.Binding{to("one"), to("two")}, nil) {
		refused("together", err)
	}
}
