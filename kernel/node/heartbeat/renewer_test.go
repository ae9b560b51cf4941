package heartbeat

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestRenew (NODE-7): the Lease is made, taken over or renewed, whatever happens to it meanwhile, and after a failure
// it is tried again soon.
func TestRenew(t *testing.T) {
	old := metav1.NewMicroTime(time.Now().Add(-time.Hour))
	another := "another"
	for name, tc := range map[string]struct {
		there   *coordinationv1.Lease
		between func(c *fake.Clientset) error // between the first and the second renewal
		verbs   []string
	}{
		"missing": {verbs: []string{"get", "create", "update"}},
		"there":   {there: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &another, RenewTime: &old}}, verbs: []string{"get", "update", "update"}},
		"deleted meanwhile": {verbs: []string{"get", "create", "update", "get", "create"}, between: func(c *fake.Clientset) error {
			return c.Tracker().Delete(coordinationv1.SchemeGroupVersion.WithResource("leases"), corev1.NamespaceNodeLease, "n")
		}},
		"written by another": {verbs: []string{"get", "create", "update", "get", "update"}, between: func(c *fake.Clientset) error {
			refuse := true
			c.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
				if !refuse {
					return false, nil, nil
				}
				refuse = false
				return true, nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "n", errors.New("changed"))
			})
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientset()
			if tc.there != nil {
				tc.there.Name, tc.there.Namespace = "n", corev1.NamespaceNodeLease
				if err := c.Tracker().Add(tc.there); err != nil {
					t.Fatal(err)
				}
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
			r := New(Config{Name: "n", Duration: 40 * time.Second, Renew: 10 * time.Second}, c.CoordinationV1(), func() *corev1.Node { return node }, slog.New(slog.DiscardHandler))
			for round := range 2 {
				begin := metav1.NowMicro()
				if next := r.Renew(t.Context()); next < 10*time.Second || next > 11*time.Second {
					t.Errorf("round %d: next in %s", round, next)
				}
				l, err := c.Tracker().Get(coordinationv1.SchemeGroupVersion.WithResource("leases"), corev1.NamespaceNodeLease, "n")
				if err != nil {
					t.Fatal(err)
				}
				lease := l.(*coordinationv1.Lease)
				if *lease.Spec.HolderIdentity != "n" || *lease.Spec.LeaseDurationSeconds != 40 || lease.Spec.RenewTime.Before(&begin) || len(lease.OwnerReferences) != 1 || lease.OwnerReferences[0].UID != "u" {
					t.Errorf("round %d: %+v", round, lease)
				}
				if round == 0 && tc.between != nil {
					if err := tc.between(c); err != nil {
						t.Fatal(err)
					}
				}
			}
			var verbs []string
			for _, a := range c.Actions() {
				verbs = append(verbs, a.GetVerb())
			}
			if len(verbs) != len(tc.verbs) {
				t.Fatalf("%v, want %v", verbs, tc.verbs)
			}
			for i := range verbs {
				if verbs[i] != tc.verbs[i] {
					t.Fatalf("%v, want %v", verbs, tc.verbs)
				}
			}
		})
	}
}

// TestRenewFails: pauses grow, never beyond the renewal's own, and end with the failures.
func TestRenewFails(t *testing.T) {
	c, fails := fake.NewClientset(), true
	c.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails, nil, apierrors.NewServiceUnavailable("down")
	})
	r := New(Config{Name: "n", Duration: 4 * time.Second, Renew: time.Second}, c.CoordinationV1(), func() *corev1.Node { return nil }, slog.New(slog.DiscardHandler))
	for i, want := range []time.Duration{200, 400, 800, 1000, 1000} {
		if next := r.Renew(t.Context()); next != want*time.Millisecond {
			t.Errorf("failure %d: next in %s", i, next)
		}
	}
	fails = false
	if next := r.Renew(t.Context()); next < time.Second || next > 1100*time.Millisecond {
		t.Errorf("after failures: next in %s", next)
	}
	fails = true
	if next := r.Renew(t.Context()); next != fastest {
		t.Errorf("a new failure: next in %s", next)
	}
}
