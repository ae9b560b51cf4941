package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/api"
)

// written is the path of a file with this content.
func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Under a webhook that cannot be reached, and denies then, the server becomes ready and
// its scheduler binds; others get nothing, but system:masters. Who asks for the rules
// learns that they are not all known.
func TestAuthorizationConfig(t *testing.T) {
	hook := written(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: w,
 clusters: [{name: w, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: w, context: {cluster: w}}]}`)
	file := written(t, "authz.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: unreachable
  webhook:
    timeout: 1s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+hook+`}
    matchConditions:
    - expression: "!('trusted' in request.groups)"
- type: Node
  name: node
- type: RBAC
  name: rbac
`)
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.AuthorizationConfig = file })
	if _, err := overTLS(t, s).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("an administrator: %v", err)
	}
	if _, err := asSuperAdmin(t, s).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("system:masters: %v", err)
	}
	scheduler := kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: user.KubeScheduler}))
	if _, err := scheduler.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the scheduler: %v", err)
	}
	if _, err := scheduler.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsInternalError(err) {
		t.Errorf("the scheduler, Secrets: %v", err)
	}
	trusted := kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: "alice", Groups: []string{"trusted"}}))
	review, err := trusted.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Incomplete || len(review.Status.ResourceRules) == 0 {
		t.Errorf("rules: %+v, %v", review, err)
	}
}

// A webhook of authorization that asks this server, which asks the webhook: a bounded
// number of questions is under way, and what comes ends in the time of one. The kernel's
// own parts and system:masters go on meanwhile.
func TestAuthorizationLoop(t *testing.T) {
	var s *api.Server
	var underWay, most atomic.Int64
	ready := make(chan struct{})
	loop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		<-ready
		n := underWay.Add(1)
		defer underWay.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		res, err := overTLS(t, s).AuthorizationV1().RESTClient().Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").Body(must(io.ReadAll(req.Body))).
			SetHeader("Content-Type", "application/json").DoRaw(req.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(res)
	}))
	t.Cleanup(loop.Close)
	hook := written(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: w, clusters: [{name: w, cluster: {server: "`+loop.URL+`"}}], contexts: [{name: w, context: {cluster: w}}]}`)
	file := written(t, "authz.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: loop
  webhook:
    timeout: 2s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: `+hook+`}
- {type: RBAC, name: rbac}
`)
	s, _ = startWith(t, t.TempDir(), func(c *api.Config) { c.AuthorizationConfig = file })
	close(ready)
	if _, err := overTLS(t, s).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("it was allowed")
	}
	if _, err := asSuperAdmin(t, s).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("system:masters: %v", err)
	}
	waitFor(t, func() bool { return underWay.Load() == 0 })
	t.Logf("at most %d questions were under way", most.Load())
	if most.Load() > 200 {
		t.Errorf("%d questions were under way", most.Load())
	}
}
