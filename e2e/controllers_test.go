package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"

	"pintle.dev/pintle/e2e/cluster"
)

// hollowConfig is a control plane with simulated nodes. Its nodes renew their
// leases every ten seconds.
const hollowConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
plugins:
  bundles:
  - name: classic
  - name: controllers
    config:
      root-ca: {caFile: "${dataDir}/pki/ca.crt"}
      nodelifecycle: {nodeMonitorPeriod: 500ms, nodeMonitorGracePeriod: 20s, nodeEvictionRate: 10}
  - name: hollow
    privileged: true
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [CheckNodeUnschedulable, HostName, PodToleratesNodeTaints, MatchNodeSelector, PodFitsHostPorts, PodFitsResources]
    priorities: [{name: LeastRequestedPriority, weight: 1}, {name: SelectorSpreadPriority, weight: 1}]
controllers:
  enabled: [deployment, replicaset, statefulset, disruption, persistentvolume-binder, daemonset, cronjob, horizontalpodautoscaler, nodettl, endpoints, endpointslice, endpointslicemirroring, nodelifecycle, tainteviction, namespace, serviceaccount, root-ca, podgc, garbagecollector, resourcequota, servicecidr, resourceclaim, devicetainteviction, job, ttlafterfinished, pvc-protection, pv-protection, volumeattributesclass-protection, legacy-serviceaccount-token-cleaner, csrapproving, csrcleaner]
hollow: {runtime: hollow, nodes: 2}
`

// hollow starts a cluster of simulated nodes in the machine's own network; it
// needs no root. Data that is given is kept for the next start.
func hollow(t *testing.T, name, data string, nodes int) *env {
	t.Helper()
	binary(t, "pintle")
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(hollowConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := launch(cluster.Options{
		Name: name, Config: config, Data: data,
		Set: []string{"node.enabled=false", "api.bindAddress=127.0.0.1", fmt.Sprintf("hollow.nodes=%d", nodes)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-e.Exited(): // by the test
			return
		default:
		}
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", name, e.Log(40))
		}
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestControllers are those that keep namespaces, services and quotas, on one
// cluster of hollow nodes.
func TestControllers(t *testing.T) {
	t.Parallel()
	e := hollow(t, "controllers", "", 2)
	t.Run("all", func(t *testing.T) { // ends before the cluster does
		for name, test := range map[string]func(*testing.T, *env){
			"furniture": namespaceFurniture, "namespace": namespaceGoes, "endpoints": endpointsFollow, "endpoints by hand": endpointsAreMirrored, "quota": quotaHolds, "service ranges": serviceRangesEnd, "devices": devicesAreServed, "device claims": deviceClaimsFollow, "device taints": deviceTaintsEnd, "requests": requestsAreApproved, "daemon sets": daemonsOnHollowNodes, "cron jobs": cronJobsTick, "owner rings": ownerRings,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, e)
			})
		}
	})
	log := e.Log(1 << 20)
	if strings.Contains(log, "forbidden: User") {
		t.Errorf("a controller is not allowed what it does:\n%s", log)
	}
	// Quotas that refuse, namespaces that go and caches that are behind are
	// nothing to warn of.
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "failed and is tried again") {
			t.Errorf("warned: %s", line)
		}
	}
}

// namespaceFurniture: each namespace has its service account and the CA of the
// API, and gets them back.
func namespaceFurniture(t *testing.T, e *env) {
	ns := e.namespace(t)
	check := func(old *corev1.ConfigMap) (cm *corev1.ConfigMap) {
		t.Helper()
		eventually(t, func(ctx context.Context) (err error) {
			if _, err = e.client.CoreV1().ServiceAccounts(ns).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			cm, err = e.client.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err == nil && old != nil && old.UID == cm.UID && cm.Data["ca.crt"] != old.Data["ca.crt"] {
				return errors.New("the old ConfigMap is there, spoilt")
			}
			return err
		})
		return cm
	}
	cm := check(nil)
	if !bytes.Equal([]byte(cm.Data["ca.crt"]), e.cfg.CAData) {
		t.Errorf("kube-root-ca.crt is not what the kubeconfig trusts:\n%s", cm.Data["ca.crt"])
	}
	e.kubectl(t, "-n", ns, "patch", "cm", "kube-root-ca.crt", "--type=merge", "-p", `{"data":{"ca.crt":"spoilt"}}`)
	check(cm)
	e.kubectl(t, "-n", ns, "delete", "--wait=false", "sa/default", "cm/kube-root-ca.crt")
	check(nil)
}

// namespaceGoes: a namespace takes all with it, waits for what finalizers hold
// and says so; custom resources too.
func namespaceGoes(t *testing.T, e *env) {
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.controllers.example.com}
spec:
  group: controllers.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	e.established(t, "widgets.controllers.example.com")
	t.Cleanup(func() { e.try(t, "delete", "crd", "widgets.controllers.example.com", "--wait=false") })
	e.apply(t, ns, simulated("web", 3, ""))
	eventually(t, func(context.Context) error { // a new kind is served a moment later
		return e.tryApply(t, ns, `
apiVersion: controllers.example.com/v1
kind: Widget
metadata: {name: plain}
---
apiVersion: controllers.example.com/v1
kind: Widget
metadata: {name: held, finalizers: [example.com/hold]}
`)
	})
	e.kubectl(t, "-n", ns, "wait", "--for=condition=Available", "deployment/web")
	e.kubectl(t, "delete", "namespace", ns, "--wait=false")
	eventually(t, func(ctx context.Context) error {
		got, err := e.client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the namespace went before its content: %v", err)
		}
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.NamespaceFinalizersRemaining && c.Status == corev1.ConditionTrue &&
				c.Message == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances" {
				return nil
			}
		}
		return fmt.Errorf("%s %v", got.Status.Phase, got.Status.Conditions)
	})
	if r := e.try(t, "-n", ns, "create", "configmap", "late"); !strings.Contains(r.stderr, "because it is being terminated") {
		t.Errorf("create in a namespace that goes: %s%s", r.stdout, r.stderr)
	}
	if out := e.kubectl(t, "-n", ns, "get", "all,cm,sa,endpointslices,widgets", "-o", "name"); out != "widget.controllers.example.com/held\n" {
		t.Errorf("left besides what the finalizer holds:\n%s", out)
	}
	e.kubectl(t, "-n", ns, "patch", "widget", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the namespace is there: %w", err)
	})
	objects, err := metadata.NewForConfig(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "serviceaccounts"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "controllers.example.com", Version: "v1", Resource: "widgets"},
	} {
		if list, err := objects.Resource(r).Namespace(ns).List(bound(t), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
			t.Errorf("%s after the namespace: %v, %v", r.Resource, list, err)
		}
	}
}

// tryApply is apply, which may fail.
func (e *env) tryApply(t testing.TB, namespace, manifests string) error {
	t.Helper()
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	if r := e.run(t, manifests, path, "apply", "-n", namespace, "-f", "-"); r.err != nil {
		return fmt.Errorf("kubectl apply: %w: %s%s", r.err, r.stdout, r.stderr)
	}
	return nil
}

// simulated is a Deployment without mounts; more is put into the pod's spec.
func simulated(name string, replicas int, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      automountServiceAccountToken: false
      containers: [{name: c, image: simulated, ports: [{name: http, containerPort: 8080}]}]
%[3]s`, name, replicas, more)
}

// endpointsAreMirrored: Endpoints that a user wrote for a service without a
// selector have a slice, which goes with them; that of the API has one only.
func endpointsAreMirrored(t *testing.T, e *env) {
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {ports: [{name: sql, port: 5432}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: db, labels: {app: db}}
subsets: [{addresses: [{ip: 192.0.2.7}], notReadyAddresses: [{ip: 192.0.2.8}], ports: [{name: sql, port: 15432}]}]
`)
	expect := func(ns, service, want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			got := e.kubectl(t, "-n", ns, "get", "endpointslices", "-l", "kubernetes.io/service-name="+service,
				"-o", `jsonpath={range .items[*]}{.metadata.labels.endpointslice\.kubernetes\.io/managed-by} {.metadata.labels.app} {.ports[0].port} {.endpoints[*].addresses[0]} {.endpoints[*].conditions.ready};{end}`)
			if got != want {
				return fmt.Errorf("slices of %s: %q, want %q", service, got, want)
			}
			return nil
		})
	}
	expect(ns, "db", "endpointslicemirroring-controller.k8s.io db 15432 192.0.2.7 192.0.2.8 true false;")
	e.kubectl(t, "-n", ns, "patch", "endpoints", "db", "--type=json", "-p", `[{"op":"replace","path":"/subsets/0/ports/0/port","value":25432}]`)
	expect(ns, "db", "endpointslicemirroring-controller.k8s.io db 25432 192.0.2.7 192.0.2.8 true false;")
	e.kubectl(t, "-n", ns, "delete", "endpoints", "db")
	expect(ns, "db", "")
	if n := strings.Count(e.kubectl(t, "-n", "default", "get", "endpointslices", "-l", "kubernetes.io/service-name=kubernetes", "-o", "name"), "\n"); n > 1 { // none where the API is on loopback
		t.Errorf("the API's own service has %d slices", n)
	}
}

// endpointsFollow: both kinds of endpoints follow the pods of a Deployment:
// there, ready, not ready, gone.
func endpointsFollow(t *testing.T, e *env) {
	ns := e.namespace(t)
	e.apply(t, ns, simulated("web", 2, "      readinessGates: [{conditionType: example.com/open}]\n")+`
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: web, port: 80, targetPort: http}]}
`)
	open := func(pod string, status corev1.ConditionStatus) {
		t.Helper()
		e.kubectl(t, "-n", ns, "patch", "pod", pod, "--subresource=status", "-p",
			fmt.Sprintf(`{"status":{"conditions":[{"type":"example.com/open","status":%q}]}}`, status))
	}
	names := func(addresses []corev1.EndpointAddress) (out []string) {
		for _, a := range addresses {
			out = append(out, a.TargetRef.Name)
		}
		slices.Sort(out)
		return out
	}
	expect := func(ready, notReady []string) {
		t.Helper()
		slices.Sort(ready)
		slices.Sort(notReady)
		eventually(t, func(ctx context.Context) error {
			ep, err := e.client.CoreV1().Endpoints(ns).Get(ctx, "web", metav1.GetOptions{}) //nolint:staticcheck // the old kind is served as well
			if err != nil {
				return err
			}
			var is, not []string
			for _, s := range ep.Subsets {
				is, not = append(is, names(s.Addresses)...), append(not, names(s.NotReadyAddresses)...)
				if len(s.Ports) != 1 || s.Ports[0].Port != 8080 || s.Ports[0].Name != "web" {
					return fmt.Errorf("ports %v", s.Ports)
				}
			}
			if !slices.Equal(is, ready) || !slices.Equal(not, notReady) {
				return fmt.Errorf("endpoints: ready %v, not ready %v; want %v and %v", is, not, ready, notReady)
			}
			slices1, err := e.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
			if err != nil {
				return err
			}
			is, not = nil, nil
			for _, s := range slices1.Items {
				for _, ep := range s.Endpoints {
					if ep.NodeName == nil || !strings.HasPrefix(*ep.NodeName, "hollow-") {
						return fmt.Errorf("endpoint without its node: %v", ep)
					}
					if *ep.Conditions.Ready {
						is = append(is, ep.TargetRef.Name)
					} else {
						not = append(not, ep.TargetRef.Name)
					}
				}
			}
			slices.Sort(is)
			slices.Sort(not)
			if !slices.Equal(is, ready) || !slices.Equal(not, notReady) {
				return fmt.Errorf("slices: ready %v, not ready %v; want %v and %v", is, not, ready, notReady)
			}
			return nil
		})
	}
	var pods []string
	eventually(t, func(ctx context.Context) error {
		list, err := e.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods = nil
		for _, p := range list.Items {
			if p.Status.PodIP != "" && p.Status.Phase == corev1.PodRunning {
				pods = append(pods, p.Name)
			}
		}
		if len(pods) != 2 {
			return fmt.Errorf("%d pods run", len(pods))
		}
		return nil
	})
	expect(nil, slices.Clone(pods))
	open(pods[0], corev1.ConditionTrue)
	open(pods[1], corev1.ConditionTrue)
	expect(slices.Clone(pods), nil)
	open(pods[1], corev1.ConditionFalse)
	expect(pods[:1], pods[1:])
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=1") // the one that is not ready goes first
	expect(pods[:1], nil)
	e.kubectl(t, "-n", ns, "delete", "service", "web")
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().Endpoints(ns).Get(ctx, "web", metav1.GetOptions{}) //nolint:staticcheck // as above
		list, err2 := e.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) || err2 != nil || len(list.Items) != 0 {
			return fmt.Errorf("after the service: endpoints %v; slices %v, %w", err, list, err2)
		}
		return nil
	})
}

// quotaHolds (000 RQC-1, RQC-8): what is over the quota is refused in the usual
// words, the status says what is used, and what is deleted is given back.
func quotaHolds(t *testing.T, e *env) {
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: "1", secrets: "1", persistentvolumeclaims: "1", requests.storage: 1Gi, count/deployments.apps: "1"}}
`)
	used := func(want string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			q, err := e.client.CoreV1().ResourceQuotas(ns).Get(ctx, "q", metav1.GetOptions{})
			if err != nil {
				return err
			}
			u := q.Status.Used
			got := fmt.Sprintf("pods %s, secrets %s, claims %s of %s, deployments %s", number(u, "pods"), number(u, "secrets"),
				number(u, "persistentvolumeclaims"), number(u, "requests.storage"), number(u, "count/deployments.apps"))
			if got != want {
				return fmt.Errorf("used: %s; want %s", got, want)
			}
			return nil
		})
	}
	claim := `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	used("pods 0, secrets 0, claims 0 of 0, deployments 0")
	e.kubectl(t, "-n", ns, "create", "secret", "generic", "one")
	e.apply(t, ns, fmt.Sprintf(claim, "one"))
	e.apply(t, ns, simulated("one", 1, ""))
	used("pods 1, secrets 1, claims 1 of 1Gi, deployments 1")
	for what, args := range map[string][]string{
		`secrets "two" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=1, limited: secrets=1`:                                                       {"secret", "generic", "two"},
		`deployments.apps "two" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=1, limited: count/deployments.apps=1`: {"deployment", "two", "--image=simulated"},
	} {
		if r := e.try(t, append([]string{"-n", ns, "create"}, args...)...); r.err == nil || !strings.Contains(r.stderr, what) {
			t.Errorf("create %v: %s%s; want %s", args, r.stdout, r.stderr, what)
		}
	}
	if err := e.tryApply(t, ns, fmt.Sprintf(claim, "two")); err == nil || !strings.Contains(err.Error(),
		"exceeded quota: q, requested: persistentvolumeclaims=1,requests.storage=1Gi, used: persistentvolumeclaims=1,requests.storage=1Gi, limited: persistentvolumeclaims=1,requests.storage=1Gi") {
		t.Errorf("second claim: %v", err)
	}
	e.kubectl(t, "-n", ns, "scale", "deployment/one", "--replicas=2")
	eventually(t, func(context.Context) error {
		if out := e.kubectl(t, "-n", ns, "get", "events", "--field-selector=reason=FailedCreate"); !strings.Contains(out, "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1") {
			return errors.New("no event: " + out)
		}
		return nil
	})
	e.kubectl(t, "-n", ns, "delete", "--wait=false", "secret/one", "pvc/one", "deployment/one")
	used("pods 0, secrets 0, claims 0 of 0, deployments 0")
	e.kubectl(t, "-n", ns, "create", "secret", "generic", "two")
	used("pods 0, secrets 1, claims 0 of 0, deployments 0")
}

func number(list corev1.ResourceList, name corev1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "?"
	}
	return q.String()
}

// TestSilentNode (000 NDC-2, NDC-10; 003 NC-4, NC-9): a node whose agent has
// ended becomes Unknown and is tainted, its pods go elsewhere when their
// toleration is over, and when the agent is back the taints go.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	data, err := os.MkdirTemp("", "pte")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Error(err)
		}
	})
	end := func(e *env) {
		t.Helper()
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	const short = `      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]
`
	e := hollow(t, "silent-node", data, 2)
	ns := e.namespace(t)
	e.apply(t, ns, simulated("leaves", 2, short))
	e.apply(t, ns, simulated("patient", 2, "")) // 300 seconds, by admission
	e.kubectl(t, "-n", ns, "wait", "--for=condition=Available", "deployment/leaves", "deployment/patient")
	placed := func(ctx context.Context, e *env, app string) (out map[string]int, err error) {
		list, err := e.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return nil, err
		}
		out = map[string]int{}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && isReady(&p) == nil {
				out[p.Spec.NodeName]++
			} else {
				out[p.Spec.NodeName+" left"]++
			}
		}
		return out, nil
	}
	if got, err := placed(bound(t), e, "leaves"); err != nil || got["hollow-0"] != 1 || got["hollow-1"] != 1 {
		t.Fatalf("placed on %v, %v", got, err)
	}
	end(e)

	e = hollow(t, "silent-node", data, 1) // hollow-1 has no agent any more
	eventually(t, func(ctx context.Context) error {
		got, err := placed(ctx, e, "leaves")
		if err != nil || got["hollow-0"] != 2 {
			return fmt.Errorf("placed on %v, %w", got, err)
		}
		return nil
	})
	node, err := e.client.CoreV1().Nodes().Get(bound(t), "hollow-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range node.Status.Conditions {
		if c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
			t.Errorf("condition %+v", c)
		}
	}
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == corev1.TaintNodeUnreachable && t.Effect == effect && t.TimeAdded != nil
		}) {
			t.Errorf("no taint %s: %v", effect, node.Spec.Taints)
		}
	}
	contains(t, e.kubectl(t, "get", "nodes"), "NotReady")
	if got, err := placed(bound(t), e, "patient"); err != nil || got["hollow-1 left"] != 1 || got["hollow-0"] != 1 {
		t.Errorf("pods that tolerate it for five minutes are on %v, %v", got, err)
	}
	events := e.kubectl(t, "get", "events", "-A")
	contains(t, events, "Node hollow-1 status is now: NodeNotReady", "Node is not ready", "Marking for deletion Pod "+ns+"/leaves-")
	end(e)

	e = hollow(t, "silent-node", data, 2)
	eventually(t, func(ctx context.Context) error {
		node, err := e.client.CoreV1().Nodes().Get(ctx, "hollow-1", metav1.GetOptions{})
		if err != nil || len(node.Spec.Taints) != 0 {
			return fmt.Errorf("taints %v, %w", node.Spec.Taints, err)
		}
		if got, err := placed(ctx, e, "patient"); err != nil || got["hollow-0"] != 1 || got["hollow-1"] != 1 || len(got) != 2 {
			return fmt.Errorf("pods that stayed: %v, %w", got, err)
		}
		if got, err := placed(ctx, e, "leaves"); err != nil || got["hollow-0"] != 2 || len(got) != 1 {
			return fmt.Errorf("pods that left: %v, %w", got, err)
		}
		return nil
	})
	e.kubectl(t, "delete", "namespace", ns)
}

// serviceRangesEnd: services draw from a ServiceCIDR that is added, and one that is
// deleted stays until they have no use for it.
func serviceRangesEnd(t *testing.T, e *env) {
	ns := e.namespace(t)
	ready := func(name, want string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if have := e.kubectl(t, "get", "servicecidr", name, "-o", `jsonpath={.metadata.finalizers} {range .status.conditions[*]}{.type}={.status} {.reason}{end}`); strings.TrimSpace(have) != want {
				return fmt.Errorf("servicecidr %s: %q, want %q", name, have, want)
			}
			return nil
		})
	}
	const held = `["networking.k8s.io/service-cidr-finalizer"] `
	ready("kubernetes", held+"Ready=True")
	manifest := filepath.Join(t.TempDir(), "range.yaml")
	if err := os.WriteFile(manifest, []byte(`
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: more}
spec: {cidrs: [10.61.0.0/28]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "apply", "-f", manifest)
	ready("more", held+"Ready=True")
	e.kubectl(t, "-n", ns, "create", "service", "clusterip", "web", "--tcp=80", "--clusterip=10.61.0.5")
	if have := e.kubectl(t, "get", "ip", "10.61.0.5", "--no-headers"); !strings.Contains(have, "services/"+ns+"/web") {
		t.Errorf("ipaddress: %s", have)
	}
	e.kubectl(t, "delete", "servicecidr", "more", "--wait=false")
	ready("more", held+"Ready=False Terminating")
	e.kubectl(t, "-n", ns, "delete", "service", "web")
	eventually(t, func(context.Context) error {
		if have := e.kubectl(t, "get", "servicecidr", "more", "--ignore-not-found", "-o", "name"); have != "" {
			return errors.New("the range is still there")
		}
		return nil
	})
}

// devicesAreServed: kubectl makes, shows, explains and changes the kinds of dynamic
// resource allocation, and a namespace that goes takes its claims along.
func devicesAreServed(t *testing.T, e *env) {
	ns := e.namespace(t)
	manifest := filepath.Join(t.TempDir(), "devices.yaml")
	if err := os.WriteFile(manifest, []byte(`
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: gpus}
spec:
  driver: gpu.example.com
  pool: {name: pool, resourceSliceCount: 1}
  allNodes: true
  devices: [{name: first, attributes: {model: {string: large}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: each}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is left to do
		e.kubectl(t, "-n", ns, "apply", "-f", manifest)
	}
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"pending", []string{"-n", ns, "get", "resourceclaims", "one"}},
		{"gpu.example.com", []string{"get", "resourceslices", "--field-selector=spec.driver=gpu.example.com"}},
		{"device.driver ==", []string{"describe", "deviceclass", "gpu"}},
		{"ExactCount", []string{"-n", ns, "get", "resourceclaimtemplate", "each", "-o", "yaml"}},
		{"firstAvailable", []string{"explain", "resourceclaims.spec.devices.requests"}},
		{"labeled", []string{"-n", ns, "label", "resourceclaim", "one", "a=b"}},
		{"deviceclass.resource.k8s.io \"gpu\" deleted", []string{"delete", "deviceclass", "gpu"}},
		{"resourceslice.resource.k8s.io \"gpus\" deleted", []string{"delete", "resourceslice", "gpus"}},
	} {
		if have := e.kubectl(t, tc.args...); !strings.Contains(have, tc.want) {
			t.Errorf("kubectl %s: %s; want %q", strings.Join(tc.args, " "), have, tc.want)
		}
	}
	e.kubectl(t, "-n", ns, "create", "quota", "devices", "--hard=gpu.deviceclass.resource.k8s.io/devices=5,count/resourceclaims.resource.k8s.io=9")
	eventually(t, func(context.Context) error {
		if have := e.kubectl(t, "-n", ns, "get", "quota", "devices", "-o", "jsonpath={.status.used}"); have != `{"count/resourceclaims.resource.k8s.io":"1","gpu.deviceclass.resource.k8s.io/devices":"1"}` {
			return fmt.Errorf("used: %s", have)
		}
		return nil
	})
	e.kubectl(t, "delete", "namespace", ns, "--wait=true", "--timeout=60s")
	if have := e.kubectl(t, "-n", ns, "get", "resourceclaims,resourceclaimtemplates", "-o", "name"); strings.TrimSpace(have) != "" {
		t.Errorf("left: %s", have)
	}
}
