package api_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	server "k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"pintle.dev/pintle/kernel/api"
)

// echo is a container whose command copies its input to its output.
type echo struct{}

func (echo) ExecInContainer(_ context.Context, _, _, container string, cmd []string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan server.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(out, "%s %s: ", container, strings.Join(cmd, " "))
	_, err := io.Copy(out, in)
	return err
}

// agent serves what a node agent does, with a certificate of the cluster's,
// to holders of one.
func agent(t *testing.T, s *api.Server) *net.TCPAddr {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/containerLogs/default/web/main", func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(w, "log of web by %s, tail %s\n", req.TLS.PeerCertificates[0].Subject.CommonName, req.URL.Query().Get("tailLines"))
	})
	mux.HandleFunc("/exec/default/web/main", func(w http.ResponseWriter, req *http.Request) {
		opts, err := server.NewOptions(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		server.ServeExec(w, req, echo{}, "web", "", "main", req.URL.Query()["command"], opts, time.Minute, time.Minute, server.SupportedStreamingProtocols)
	})
	_, serving, err := s.PKI().Node("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(mux)
	srv.TLS = &tls.Config{
		Certificates: []tls.Certificate{must(tls.X509KeyPair(serving.Pair().CertPEM, serving.Pair().KeyPEM))},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: s.PKI().CAPool(),
	}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().(*net.TCPAddr)
}

// place creates node n1 at addr and a pod on it.
func place(t *testing.T, s *api.Server, c kubernetes.Interface, name string, port int) {
	t.Helper()
	ctx := t.Context()
	if port != 0 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		node, err := c.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		if _, err := c.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.CoreV1().Pods("default").Create(ctx, pod(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Target: corev1.ObjectReference{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
}

// Who may get nodes/proxy or pods/exec reads pages and gets into no container,
// by no method and no way to write the path; who may create does.
func TestStreamsNeedCreate(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	place(t, s, c, "web", agent(t, s).Port)
	as := func(user string, verbs ...string) *rest.RESTClient {
		t.Helper()
		if _, err := c.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes/proxy", "pods/exec", "pods/attach", "pods/portforward"}, Verbs: verbs},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: user}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		cfg := must(kubeconfig(s))
		cfg.Impersonate.UserName, cfg.NextProtos = user, []string{"http/1.1"} // which can be upgraded
		return kubernetes.NewForConfigOrDie(cfg).CoreV1().RESTClient().(*rest.RESTClient)
	}
	reader, creator := as("reader", "get"), as("creator", "get", "create")
	// Rights are known a moment after they are written.
	for ask := func(r *rest.RESTClient, verb string) bool {
		err := r.Verb(verb).AbsPath("/api/v1/nodes/n1/proxy/pods").Do(t.Context()).Error()
		return apierrors.IsForbidden(err)
	}; (ask(reader, "GET") || ask(creator, "POST")) && t.Context().Err() == nil; {
	}
	for _, path := range []string{
		"/api/v1/nodes/n1/proxy/exec/default/web/main", "/api/v1/nodes/n1/proxy/attach/default/web/main", "/api/v1/nodes/n1/proxy/portForward/default/web",
		"/api/v1/nodes/n1:10250/proxy/exec/default/web/main", "/api/v1/nodes/https:n1:10250/proxy/exec/default/web/main",
		"/api/v1/nodes/n1/proxy//exec/default/web/main", "/api/v1/nodes/n1/proxy/pods/%2e%2e/exec/default/web/main", "/api/v1/nodes/n1/proxy/%65xec/default/web/main",
		"/api/v1/namespaces/default/pods/web/exec", "/api/v1/namespaces/default/pods/web/attach", "/api/v1/namespaces/default/pods/web/portforward",
	} {
		for name, protocol := range map[string]string{"plain": "", "websocket": "websocket", "spdy": "SPDY/3.1"} {
			ask := func(client *rest.RESTClient, method string) error {
				r := client.Verb(method).RequestURI(path + "?command=id&output=1")
				if protocol != "" {
					r.SetHeader("Connection", "Upgrade").SetHeader("Upgrade", protocol)
				}
				return r.Do(t.Context()).Error()
			}
			for _, method := range []string{"GET", "POST"} {
				if err := ask(reader, method); !apierrors.IsForbidden(err) {
					t.Errorf("who may get asks %s %s (%s): %v", method, path, name, err)
				}
				if err := ask(creator, method); apierrors.IsForbidden(err) {
					t.Errorf("who may create asks %s %s (%s): %v", method, path, name, err)
				}
			}
		}
	}
	if err := reader.Get().AbsPath("/api/v1/nodes/n1/proxy/pods").SetHeader("Connection", "Upgrade").SetHeader("Upgrade", "websocket").Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("an upgrade of another path: %v", err)
	}
}

// Logs and commands reach the container through the node's agent.
func TestAgent(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	place(t, s, c, "web", agent(t, s).Port)
	tail := int64(5)
	log, err := c.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{TailLines: &tail}).DoRaw(t.Context())
	if err != nil || string(log) != "log of web by kube-apiserver-kubelet-client, tail 5\n" {
		t.Errorf("log: %q, %v", log, err)
	}
	if _, err := c.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Container: "other"}).DoRaw(t.Context()); !apierrors.IsBadRequest(err) {
		t.Errorf("log of an unknown container: %v", err)
	}
	cfg := must(kubeconfig(s))
	url := c.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Command: []string{"cat", "-"}, Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	for name, executor := range map[string]remotecommand.Executor{
		"spdy":      must(remotecommand.NewSPDYExecutor(cfg, http.MethodPost, url)),
		"websocket": must(remotecommand.NewWebSocketExecutor(cfg, http.MethodGet, url.String())),
	} {
		var out bytes.Buffer
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out})
		if err != nil || out.String() != "main cat -: hello" {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// Nobody is dialed for a simulated node: its address is made up.
func TestHollowNode(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	place(t, s, c, "web", agent(t, s).Port)
	label := []byte(`{"metadata":{"labels":{"` + api.HollowLabel + `":"true"}}}`)
	if _, err := c.CoreV1().Nodes().Patch(t.Context(), "n1", types.MergePatchType, label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/api/v1/namespaces/default/pods/web/log", "/api/v1/namespaces/default/pods/web/exec?command=ls&stdout=1",
		"/api/v1/namespaces/default/pods/web/attach?stdout=1", "/api/v1/namespaces/default/pods/web/portforward", "/api/v1/nodes/n1/proxy/healthz",
	} {
		err := c.CoreV1().RESTClient().Get().RequestURI(path).Do(t.Context()).Error()
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "node n1 simulates its pods") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A disruption budget refuses an eviction in upstream's words, and lets it
// through when it allows one.
func TestEviction(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	place(t, s, c, "guarded", 0)
	pods := c.CoreV1().Pods("default")
	running, err := pods.Get(ctx, "guarded", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running.Status.Phase = corev1.PodRunning
	running.Status.Conditions = append(running.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	if _, err := pods.UpdateStatus(ctx, running, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	budgets := c.PolicyV1().PodDisruptionBudgets("default")
	one := intstr.FromInt32(1)
	budget, err := budgets.Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "bench"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
	if budget, err = budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	evict := func() error {
		return pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}})
	}
	err = evict()
	want := "The disruption budget keep needs 1 healthy pods and has 1 currently"
	if !apierrors.IsTooManyRequests(err) || err.(*apierrors.StatusError).ErrStatus.Details.Causes[0].Message != want {
		t.Errorf("guarded: %#v", err)
	}
	budget.Status.DisruptionsAllowed = 1
	if _, err := budgets.UpdateStatus(ctx, budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evict(); err != nil {
		t.Errorf("allowed: %v", err)
	}
	got, err := budgets.Get(ctx, "keep", metav1.GetOptions{})
	if err != nil || got.Status.DisruptionsAllowed != 0 || len(got.Status.DisruptedPods) != 1 {
		t.Errorf("budget after the eviction: %+v, %v", got.Status, err)
	}
	gone, err := pods.Get(ctx, "guarded", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && (err != nil || gone.DeletionTimestamp == nil) {
		t.Errorf("pod after the eviction: %v, %v", gone, err)
	}
}
