package api_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/flowcontrol"
)

// Each identity of a cluster has its level, whatever way it comes by.
func TestLevelsOfIdentities(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	names := map[string]string{}
	of := func(u user.Info, method, path string) string {
		t.Helper()
		client, err := rest.HTTPClientFor(s.ClientConfig(u))
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, method, "http://inprocess"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		uid := res.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
		if name, ok := names[uid]; ok {
			return name
		}
		return uid
	}
	waitFor(t, func() bool {
		levels, err := overTLS(t, s).FlowcontrolV1().PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range levels.Items {
			names[string(l.UID)] = l.Name
		}
		// The controller takes the objects in a moment after they are there.
		return of(&user.DefaultInfo{Name: "somebody"}, http.MethodGet, "/version") == "global-default"
	})
	node := &user.DefaultInfo{Name: "system:node:n", Groups: []string{"system:nodes"}}
	for _, tt := range []struct {
		name, method, path string
		who                user.Info
		want               string
	}{
		{"system:masters", "GET", "/version", &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}}, "exempt"},
		{"administrator", "GET", "/version", &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{pki.ClusterAdminsGroup}}, "workload-high"},
		{"a plugin", "GET", "/version", &user.DefaultInfo{Name: "system:pintle:plugin:controllers", Groups: []string{flowcontrol.PluginsGroup}}, "workload-high"},
		{"who calls itself a plugin", "GET", "/version", &user.DefaultInfo{Name: "system:pintle:plugin:controllers"}, "global-default"},
		{"scheduler", "GET", "/version", &user.DefaultInfo{Name: "system:kube-scheduler"}, "workload-high"},
		{"proxy", "GET", "/version", &user.DefaultInfo{Name: "system:kube-proxy"}, "workload-high"},
		{"leader election", "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager", &user.DefaultInfo{Name: "system:kube-controller-manager"}, "leader-election"},
		{"a node's lease", "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", node, "node-high"},
		{"a node otherwise", "GET", "/api/v1/services", node, "system"},
		{"account of the system", "GET", "/version", &user.DefaultInfo{Name: "system:serviceaccount:kube-system:x", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}, "workload-high"},
		{"account of a pod", "GET", "/version", &user.DefaultInfo{Name: "system:serviceaccount:default:x", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default"}}, "workload-low"},
	} {
		// The schemas are taken in one after the other.
		t.Logf("%s: want %q", tt.name, tt.want)
		waitFor(t, func() bool { return of(tt.who, tt.method, tt.path) == tt.want })
	}
}

// The mandatory objects come back, the suggested ones as well; the server's debug
// pages and metrics tell of them.
func TestPriorityAndFairness(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	fs, err := c.FlowcontrolV1().FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil || len(fs.Items) < 13 {
		t.Fatalf("%d flow schemas when the server is ready, %v", len(fs.Items), err)
	}
	catchAll := fs.Items[0].DeepCopy()
	for i := range fs.Items {
		if fs.Items[i].Name == "catch-all" {
			catchAll = fs.Items[i].DeepCopy()
		}
	}
	catchAll.Spec.MatchingPrecedence = 5
	catchAll.ResourceVersion = "" // the server writes its status meanwhile
	if _, err := c.FlowcontrolV1().FlowSchemas().Update(ctx, catchAll, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("catch-all is changed: %v", err)
	}
	if err := c.FlowcontrolV1().FlowSchemas().Delete(ctx, "service-accounts", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := flowcontrol.Ensure(ctx, c.FlowcontrolV1()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.FlowcontrolV1().FlowSchemas().Get(ctx, "service-accounts", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	page := func(path string) string {
		data, err := c.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return string(data)
	}
	// The server takes its levels in after the objects are stored.
	waitFor(t, func() bool {
		return strings.Contains(page("/debug/api_priority_and_fairness/dump_priority_levels"), "workload-low")
	})
	if got := page("/metrics"); !strings.Contains(got, "apiserver_flowcontrol_nominal_limit_seats") {
		t.Error("/metrics has no apiserver_flowcontrol_nominal_limit_seats")
	}
	stranger, err := kubernetes.NewForConfig(s.ClientConfig(&user.DefaultInfo{Name: "somebody"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.CoreV1().RESTClient().Get().AbsPath("/debug/api_priority_and_fairness/dump_requests").DoRaw(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger reads who waits: %v", err)
	}
}

// Without it requests are served as they come, and the objects stay unwritten.
func TestWithoutPriorityAndFairness(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), func(c *api.Config) { c.NoPriorityAndFairness = true })
	c := overTLS(t, s)
	fs, err := c.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(fs.Items) != 0 {
		t.Errorf("flow schemas: %d, %v", len(fs.Items), err)
	}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// kubectl prints the schemas in the order in which requests are compared with them.
func TestFlowSchemasAreOrdered(t *testing.T) {
	s := start(t, t.TempDir())
	var table metav1.Table
	err := overTLS(t, s).FlowcontrolV1().RESTClient().Get().Resource("flowschemas").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(&table)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	for _, row := range table.Rows {
		precedence, ok := row.Cells[2].(int64)
		if !ok || precedence < last {
			t.Errorf("%v after precedence %d", row.Cells, last)
		}
		last = precedence
	}
	if len(table.Rows) < 13 {
		t.Errorf("%d rows", len(table.Rows))
	}
}
