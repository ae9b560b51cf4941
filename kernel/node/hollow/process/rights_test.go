package process

import (
	"errors"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// answering is a client whose reviews allow all but what is refused, or fail.
func answering(refused string, fault error) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if fault != nil {
			return true, nil, fault
		}
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		review.Status.Allowed = refused == "" || !strings.Contains(named(*review.Spec.ResourceAttributes), refused)
		return true, review, nil
	})
	return client
}

// TestRights: who lacks a right, and which, is said before anything begins.
func TestRights(t *testing.T) {
	for name, tc := range map[string]struct {
		user, node *fake.Clientset
		want       []string
	}{
		"all":            {answering("", nil), answering("", nil), nil},
		"no watch":       {answering("watch pods", nil), answering("", nil), []string{"the user of the kubeconfig may not watch pods at https://h"}},
		"no impersonate": {answering("impersonate", nil), answering("", nil), []string{"impersonate users system:node:a-0", "impersonate groups system:nodes"}},
		"no node":        {answering("", nil), answering("nodes/status", nil), []string{"system:node:a-0 may not patch nodes/status", "authorization mode Node"}},
		"a stranger":     {answering("", apierrors.NewUnauthorized("who")), answering("", nil), []string{"does not accept the credentials"}},
		"no server":      {answering("", errors.New("dial tcp: refused")), answering("", nil), []string{"API server https://h was not reached", "dial tcp: refused"}},
		"a fault":        {answering("", nil), answering("", apierrors.NewInternalError(errors.New("x"))), []string{"as system:node:a-0", "Internal error"}},
	} {
		err := mayRun(t.Context(), "https://h", tc.user, tc.node, "a-0", "pintle-hollow-a")
		if (err == nil) != (len(tc.want) == 0) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}
