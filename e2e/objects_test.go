package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDiscovery: what a client learns about the cluster.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	t.Run("plugins", func(t *testing.T) {
		out := e.kubectl(t, "get", "plugins")
		for _, p := range []string{
			`NodeResourcesFit +predicate`, `NodeResourcesFitScore +priority`, `deployment +controller`, `containerd +runtime`, `nftables +proxy`, `iptables +proxy`,
		} {
			if !regexp.MustCompile(`(?mi)^\S*` + p).MatchString(out) {
				t.Errorf("no line %q in:\n%s", p, out)
			}
		}
		wide := e.kubectl(t, "get", "plugins", "-o", "wide")
		if len(strings.Split(wide, "\n")[0]) <= len(strings.Split(out, "\n")[0]) {
			t.Errorf("-o wide shows no more:\n%s", wide)
		}
		contains(t, wide, "wasm", "process")
		if strings.Contains(out, "Failed") {
			t.Errorf("a plugin has failed:\n%s", wide)
		}
	})
	t.Run("explain", func(t *testing.T) {
		contains(t, e.kubectl(t, "explain", "pods"), "KIND:       Pod", "VERSION:    v1", "spec\t<PodSpec>", "Specification of the desired behavior of the pod")
		contains(t, e.kubectl(t, "explain", "deployment.spec.strategy"), "GROUP:      apps", "rollingUpdate", "Possible enum values:")
		contains(t, e.kubectl(t, "explain", "plugins.spec"), "GROUP:      kernel.pintle.dev", "FIELDS:")
		contains(t, e.kubectl(t, "explain", "pod.spec.containers.image", "--output=plaintext"), "FIELD: image <string>")
	})
	t.Run("api-resources", func(t *testing.T) {
		out := e.kubectl(t, "api-resources")
		for _, r := range []string{
			`pods +po +v1 +true +Pod`, `services +svc +v1 +true +Service`, `deployments +deploy +apps/v1 +true +Deployment`,
			`customresourcedefinitions +crd,crds +apiextensions.k8s.io/v1 +false`, `plugins +\S* *kernel.pintle.dev/v1alpha1 +false +Plugin`,
			`leases +coordination.k8s.io/v1 +true +Lease`, `tokenreviews +authentication.k8s.io/v1 +false`, `endpointslices +discovery.k8s.io/v1`,
		} {
			if !regexp.MustCompile(`(?m)^` + r).MatchString(out) {
				t.Errorf("no line %q in:\n%s", r, out)
			}
		}
		contains(t, e.kubectl(t, "api-versions"), "apps/v1\n", "rbac.authorization.k8s.io/v1\n")
		contains(t, e.kubectl(t, "version"), "Client Version: v1.3", "Server Version: v1.36.")
		contains(t, e.kubectl(t, "cluster-info"), "Kubernetes control plane is running at https://")
		contains(t, e.kubectl(t, "get", "--raw", "/readyz?verbose"), "readyz check passed")
	})
}

// TestCustomResources: a definition, its objects, their validation, columns,
// status and end.
func TestCustomResources(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example}
spec:
  group: harbour.example
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.masts, statusReplicasPath: .status.masts}}
    additionalPrinterColumns: [{name: Masts, type: integer, jsonPath: .spec.masts}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [masts]
            properties: {masts: {type: integer, minimum: 1, maximum: 7}, name: {type: string, default: nameless, description: what it is called}}
            x-kubernetes-validations: [{rule: "self.name != 'Titanic'", message: "not that one"}]
          status: {type: object, properties: {masts: {type: integer}}}
`)
	t.Cleanup(func() { e.try(t, "delete", "crd", "boats.harbour.example", "--wait=false") })
	e.established(t, "boats.harbour.example")
	boat := func(name, spec string) string {
		return "apiVersion: harbour.example/v1\nkind: Boat\nmetadata: {name: " + name + "}\nspec: " + spec + "\n"
	}
	// kubectl may have to learn of the kind first.
	eventually(t, func(context.Context) error {
		if r := e.try(t, "-n", ns, "get", "boats"); r.err != nil {
			return errors.New(r.stderr)
		}
		return nil
	})
	contains(t, e.apply(t, ns, boat("sloop", "{masts: 1}")), "boat.harbour.example/sloop created")
	if out := e.kubectl(t, "-n", ns, "get", "bt"); !regexp.MustCompile(`^NAME +MASTS\nsloop +1\n$`).MatchString(out) {
		t.Errorf("get bt:\n%s", out)
	}
	if name := e.kubectl(t, "-n", ns, "get", "boat", "sloop", "-o", "jsonpath={.spec.name}"); name != "nameless" {
		t.Errorf("default: %q", name)
	}
	kubectl, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	for spec, want := range map[string]string{
		"{masts: 9}":                 "spec.masts: Invalid value: 9: spec.masts in body should be less than or equal to 7",
		"{}":                         "spec.masts: Required value",
		"{masts: 2, name: Titanic}":  "not that one",
		"{masts: 2, unknown: field}": `unknown field "spec.unknown"`,
	} {
		r := e.run(t, boat("bad", spec), kubectl, "-n", ns, "apply", "-f", "-")
		if r.err == nil || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %+v, want %q", spec, r, want)
		}
	}
	e.kubectl(t, "-n", ns, "scale", "boat/sloop", "--replicas=3")
	if masts := e.kubectl(t, "-n", ns, "get", "boat", "sloop", "-o", "jsonpath={.spec.masts}"); masts != "3" {
		t.Errorf("scale: %q", masts)
	}
	e.kubectl(t, "-n", ns, "patch", "boat", "sloop", "--subresource=status", "--type=merge", "-p", `{"status":{"masts":3}}`)
	eventually(t, func(context.Context) error {
		if r := e.try(t, "explain", "boat.spec.name"); !strings.Contains(r.stdout, "what it is called") {
			return fmt.Errorf("explain: %+v", r)
		}
		return nil
	})
	e.kubectl(t, "delete", "crd", "boats.harbour.example", "--timeout=110s")
	eventually(t, func(context.Context) error {
		// kubectl may remember the kind; the server does not.
		if r := e.try(t, "get", "--raw", "/apis/harbour.example/v1"); r.err == nil || !strings.Contains(r.stderr, "the server could not find the requested resource") {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})
}

// TestRefusals: the words with which quotas, limits and validation refuse.
func TestRefusals(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {pods: "2", requests.memory: 100Mi, configmaps: "3"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: sizes}
spec: {limits: [{type: Container, default: {memory: 64Mi}, defaultRequest: {memory: 32Mi}, max: {memory: 80Mi}}]}
`)
	// The quota counts from its first status on.
	eventually(t, func(ctx context.Context) error {
		q, err := e.client.CoreV1().ResourceQuotas(ns).Get(ctx, "small", metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) != 3 {
			err = fmt.Errorf("quota: %+v", q.Status)
		}
		return err
	})
	kubectl, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name, resources string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: \"" + box + "\", resources: " + resources + "}]}\n"
	}
	e.apply(t, ns, pod("one", "{}"))
	if out := e.kubectl(t, "-n", ns, "get", "pod", "one", "-o", "jsonpath={.spec.containers[0].resources}"); out != `{"limits":{"memory":"64Mi"},"requests":{"memory":"32Mi"}}` {
		t.Errorf("defaults of the limit range: %s", out)
	}
	for name, c := range map[string]struct{ resources, want string }{
		"too-large": {"{limits: {memory: 90Mi}}", `pods "too-large" is forbidden: maximum memory usage per Container is 80Mi, but limit is 90Mi`},
		"too-much":  {"{requests: {memory: 70Mi}, limits: {memory: 70Mi}}", `pods "too-much" is forbidden: exceeded quota: small, requested: requests.memory=70Mi, used: requests.memory=32Mi, limited: requests.memory=100Mi`},
	} {
		r := e.run(t, pod(name, c.resources), kubectl, "-n", ns, "apply", "-f", "-")
		if r.err == nil || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %s\nwant %s", name, r.stderr, c.want)
		}
	}
	// A deployment tells of the refusal and goes on when there is room.
	e.kubectl(t, "-n", ns, "create", "deployment", "many", "--image="+box, "--replicas=2")
	eventually(t, func(context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		for _, w := range []string{"FailedCreate", "exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not among the events:\n%s", w, out)
			}
		}
		return nil
	})
	e.kubectl(t, "-n", ns, "delete", "pod", "one")
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/many", "--timeout=110s")
	contains(t, e.kubectl(t, "-n", ns, "describe", "quota", "small"), "pods", "2")
	for name, c := range map[string]struct{ manifest, want string }{
		"field":     {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndatas: {}\n", `unknown field "datas"`},
		"name":      {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n", `metadata.name: Invalid value: "Not_A_Name": a lowercase RFC 1123 subdomain must consist of`},
		"image":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c}]}\n", `spec.containers[0].image: Required value`},
		"kind":      {"apiVersion: v1\nkind: Nothing\nmetadata: {name: x}\n", `no matches for kind "Nothing" in version "v1"`},
		"selector":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c, image: x}]}}}\n", "`selector` does not match template `labels`"},
		"node port": {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {type: NodePort, ports: [{port: 80, nodePort: 80}]}\n", "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"},
	} {
		r := e.run(t, c.manifest, kubectl, "-n", ns, "apply", "-f", "-")
		if r.err == nil || !strings.Contains(r.stderr, c.want) {
			t.Errorf("%s: %s\nwant %s", name, r.stderr, c.want)
		}
	}
}

// TestGarbage: owners take their dependents along, in the foreground and in
// the background, or leave them.
func TestGarbage(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	for _, name := range []string{"background", "foreground", "orphan"} {
		e.kubectl(t, "-n", ns, "create", "deployment", name, "--image="+box)
		e.kubectl(t, "-n", ns, "rollout", "status", "deployment/"+name, "--timeout=110s")
	}
	for _, name := range []string{"background", "foreground", "orphan"} {
		e.kubectl(t, "-n", ns, "delete", "deployment", name, "--cascade="+name, "--timeout=110s")
		left := e.kubectl(t, "-n", ns, "get", "replicasets,pods", "-l", "app="+name, "-o", "name")
		switch name {
		case "foreground":
			if strings.Contains(left, "replicaset") {
				t.Errorf("after a deletion in the foreground: %s", left)
			}
		case "background":
			eventually(t, func(context.Context) error {
				if left := e.kubectl(t, "-n", ns, "get", "replicasets,pods", "-l", "app="+name, "-o", "name"); left != "" {
					return errors.New("left: " + left)
				}
				return nil
			})
		case "orphan":
			contains(t, left, "replicaset", "pod")
			if owner := e.kubectl(t, "-n", ns, "get", "replicasets", "-l", "app="+name, "-o", "jsonpath={.items[*].metadata.ownerReferences}"); owner != "" {
				t.Errorf("an orphan has an owner: %s", owner)
			}
		}
	}
	// A deleted pod of a replica set comes again under another name.
	before := e.kubectl(t, "-n", ns, "get", "pods", "-l", "app=orphan", "-o", "name")
	e.kubectl(t, append([]string{"-n", ns, "delete", "--now"}, strings.Fields(before)...)...)
	eventually(t, func(context.Context) error {
		after := e.kubectl(t, "-n", ns, "get", "pods", "-l", "app=orphan", "--field-selector=status.phase=Running", "-o", "name")
		if after == "" || after == before {
			return fmt.Errorf("pods: %q", after)
		}
		return nil
	})
}

// TestNamespaceDeletion: everything in a namespace goes, finalizers are waited
// for and named, and nothing new is taken meanwhile.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	const ns = "doomed"
	e.kubectl(t, "create", "namespace", ns)
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	e.kubectl(t, "-n", ns, "create", "deployment", "web", "--image="+box)
	e.kubectl(t, "-n", ns, "create", "service", "clusterip", "web", "--tcp=80")
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	e.apply(t, ns, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [harbour.example/anchor]}\n")
	e.kubectl(t, "delete", "namespace", ns, "--wait=false")
	eventually(t, func(ctx context.Context) error {
		n, err := e.client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if err != nil {
			return err
		}
		text, err := json.Marshal(n.Status)
		if err == nil && (n.Status.Phase != corev1.NamespaceTerminating ||
			!strings.Contains(string(text), "Some content in the namespace has finalizers remaining: harbour.example/anchor in 1 resource instances")) {
			err = errors.New(string(text))
		}
		return err
	})
	if r := e.try(t, "-n", ns, "create", "configmap", "late"); r.err == nil || !strings.Contains(r.stderr, "because it is being terminated") {
		t.Errorf("an object in an ending namespace: %+v", r)
	}
	e.kubectl(t, "-n", ns, "patch", "configmap", "held", "--type=json", "-p", `[{"op":"remove","path":"/metadata/finalizers"}]`)
	e.kubectl(t, "wait", "--for=delete", "namespace/"+ns, "--timeout=110s")
	if pods := e.kubectl(t, "get", "pods", "-A", "--field-selector=metadata.namespace="+ns, "-o", "name"); pods != "" {
		t.Errorf("pods are left: %s", pods)
	}
}

// TestScheduling: the words of a pod that fits nowhere, and its way out.
func TestScheduling(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: large}
spec: {containers: [{name: c, image: `+box+`, resources: {requests: {cpu: "1000"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: picky}
spec: {nodeSelector: {`+ns+`: "yes"}, containers: [{name: c, image: `+box+`}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely}
spec: {schedulerName: nobody, containers: [{name: c, image: `+box+`}]}
`)
	eventually(t, func(context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		for _, w := range []string{"FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not among the events:\n%s", w, out)
			}
		}
		return nil
	})
	pod := e.awaitPod(t, ns, "large", hasPhase(corev1.PodPending))
	if len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0].Reason != corev1.PodReasonUnschedulable {
		t.Errorf("conditions: %+v", pod.Status.Conditions)
	}
	if p := e.awaitPod(t, ns, "lonely", hasPhase(corev1.PodPending)); p.Spec.NodeName != "" || len(p.Status.Conditions) != 0 {
		t.Errorf("a pod of another scheduler: %+v", p.Status)
	}
	// What changes about the node brings the pod back at once.
	node := strings.TrimSpace(e.kubectl(t, "get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"))
	e.kubectl(t, "label", "node", node, ns+"=yes")
	e.awaitPod(t, ns, "picky", isReady)
	e.kubectl(t, "label", "node", node, ns+"-")
	// Binding by hand, as a scheduler of one's own does.
	if err := e.client.CoreV1().Pods(ns).Bind(bound(t), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "lonely"}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.awaitPod(t, ns, "lonely", isReady)
}

// TestEviction: a disruption budget refuses an eviction in upstream's words.
func TestEviction(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.kubectl(t, "-n", ns, "create", "deployment", "web", "--image="+box, "--replicas=2")
	e.kubectl(t, "-n", ns, "create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	eventually(t, func(ctx context.Context) error {
		b, err := e.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && b.Status.CurrentHealthy != 2 {
			err = fmt.Errorf("%+v", b.Status)
		}
		return err
	})
	name := strings.Fields(e.kubectl(t, "-n", ns, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))[0]
	evict := func() error {
		return e.client.CoreV1().Pods(ns).EvictV1(bound(t), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	if err := evict(); err == nil || !strings.Contains(err.Error(), "Cannot evict pod as it would violate the pod's disruption budget.") {
		t.Errorf("eviction: %v", err)
	}
	e.kubectl(t, "-n", ns, "patch", "pdb", "web", "-p", `{"spec":{"minAvailable":1}}`)
	eventually(t, func(context.Context) error { return evict() })
	eventually(t, func(ctx context.Context) error {
		p, err := e.client.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err == nil && p.DeletionTimestamp == nil {
			return errors.New("the pod is not being deleted")
		}
		return nil
	})
}
