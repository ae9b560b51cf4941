package api_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/sdk/controller"
)

// Each way in has its own identity, and RBAC holds for all of them (API-20).
func TestIdentities(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "sock", "api")
	stopped := make(chan error, 1)
	ln, err := api.ListenUnix(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- s.ServeUnix(ctx, ln, &user.DefaultInfo{Name: "plugin"}, nil) }()
	overUnix := kubernetes.NewForConfigOrDie(&rest.Config{
		Host: "http://unix", QPS: -1,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		},
	})
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", fi, err)
	}
	anonymous := rest.AnonymousClientConfig(must(kubeconfig(s)))
	for name, c := range map[string]struct {
		client kubernetes.Interface
		want   string
	}{
		"tls":       {overTLS(t, s), "kubernetes-admin"},
		"unix":      {overUnix, "plugin"},
		"inprocess": {kubernetes.NewForConfigOrDie(s.ClientConfig(&user.DefaultInfo{Name: "someone"})), "someone"},
	} {
		waitFor(t, func() bool {
			got, err := c.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
			if err != nil {
				t.Logf("%s: %v", name, err)
				return false
			}
			if got.Status.UserInfo.Username != c.want {
				t.Errorf("%s: authenticated as %q", name, got.Status.UserInfo.Username)
			}
			return true
		})
		_, err := c.client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
		if allowed := err == nil; allowed != (name == "tls") {
			t.Errorf("%s: list secrets: %v", name, err)
		}
	}
	_, err = kubernetes.NewForConfigOrDie(anonymous).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "system:anonymous" cannot list resource "secrets"`) {
		t.Errorf("anonymous: %v", err)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("unix server: %v", err)
	}
}

// A controller watches more kinds than its socket takes connections, as the garbage
// collector does where many custom resources are, and its other requests go on.
func TestManyWatchesOverASocket(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "sock", "api")
	stopped := make(chan error, 1)
	ln, err := api.ListenUnix(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		stopped <- s.ServeUnix(ctx, ln, &user.DefaultInfo{Name: "plugin", Groups: []string{user.SystemPrivilegedGroup}}, nil)
	}()
	client := kubernetes.NewForConfigOrDie(controller.ConfigFor(path, "test")).CoreV1()
	waitFor(t, func() bool {
		_, err := client.Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	for range 600 {
		w, err := client.ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	limited, done := context.WithTimeout(ctx, 2*time.Minute)
	defer done()
	if _, err := client.ConfigMaps("default").Create(limited, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "beside"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("beside 600 watches: %v", err)
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("unix server: %v", err)
	}
}

// A token that is to be bound to what is not there is refused in the name of
// that, not of the service account that the request is about (API-20).
func TestTokenBoundToNothing(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s).CoreV1()
	if _, err := c.ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{
		"Pod": `pods "absent" not found`, "Secret": `secrets "absent" not found`, "Node": `nodes "absent" not found`,
	} {
		_, err := c.ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: "absent"},
		}}, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) || err.Error() != want {
			t.Errorf("%s: %v, want %s", kind, err, want)
		}
	}
	_, err := c.ServiceAccounts("default").CreateToken(t.Context(), "nobody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || err.Error() != `serviceaccounts "nobody" not found` {
		t.Errorf("of no account: %v", err)
	}
}

// REG-6: a binding is created once; a second one is a conflict in upstream's
// words, over HTTP as directly.
func TestBind(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	pods := overTLS(t, s).CoreV1().Pods("default")
	made, err := pods.Create(ctx, pod("bound"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "bound", Namespace: "default", UID: made.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	wrong := binding.DeepCopy()
	wrong.UID = "other"
	if err := s.Bind(ctx, wrong); !apierrors.IsConflict(err) {
		t.Errorf("binding of another pod's uid: %v", err)
	}
	if err := s.Bind(ctx, binding); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"direct": s.Bind(ctx, binding),
		"http":   pods.Bind(ctx, binding, metav1.CreateOptions{}),
	} {
		want := `Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"`
		if !apierrors.IsConflict(err) || err.Error() != want {
			t.Errorf("%s: second binding: %v", name, err)
		}
	}
	got, err := pods.Get(ctx, "bound", metav1.GetOptions{})
	if err != nil || got.Spec.NodeName != "n1" {
		t.Fatalf("bound pod: %v, %v", got, err)
	}
	scheduled := false
	for _, c := range got.Status.Conditions {
		scheduled = scheduled || (c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue)
	}
	if !scheduled {
		t.Errorf("conditions: %+v", got.Status.Conditions)
	}
}

// Bodies that do not come over a plugin's socket are given up, also those of requests that go
// the short way, and their connections with them. Meanwhile the socket serves others.
func TestSlowBodiesOverASocket(t *testing.T) {
	s := start(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "sock", "api")
	stopped := make(chan error, 1)
	ln, err := api.ListenUnix(ctx, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := &api.Gate{}
	gate.Set(0, func(string) {}) // it notes each answer
	go func() {
		stopped <- s.ServeUnix(ctx, ln, &user.DefaultInfo{Name: "plugin", Groups: []string{user.SystemPrivilegedGroup}}, gate)
	}()
	var conns []net.Conn
	for _, line := range []string{"POST /api/v1/namespaces/default/pods", "DELETE /api/v1/namespaces/default/pods/none", "PATCH /api/v1/namespaces/default/pods/none/status"} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/strategic-merge-patch+json\r\nContent-Length: 1000\r\n\r\n{", line); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	client := kubernetes.NewForConfigOrDie(controller.ConfigFor(path, "test")).CoreV1()
	waitFor(t, func() bool {
		_, err := client.Pods("default").Create(ctx, pod("beside"), metav1.CreateOptions{})
		return err == nil
	})
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(c) // until it is closed
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("%.200q, %v", answer, err)
		}
	}
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("unix server: %v", err)
	}
}
