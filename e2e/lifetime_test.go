package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestSecondStart: Ctrl-C stops everything and leaves nothing behind; the next
// start finds every object and every pod again, with the same names, keys and
// addresses of services.
func TestSecondStart(t *testing.T) {
	t.Parallel()
	needContainers(t)
	binary(t, "pintle")
	network, err := cluster.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	registry, err := serveImages(network)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	data, err := os.MkdirTemp("", "pte")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(data)
	o := cluster.Options{Name: "second-start", Config: "configs/standalone.yaml", Data: data, Network: network}
	e, err := launch(o)
	if err != nil {
		t.Fatal(err)
	}
	e.apply(t, "default", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: `+box+`, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080, nodePort: 31080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: done}
spec: {restartPolicy: Never, containers: [{name: c, image: `+box+`, args: [echo, done]}]}
`)
	e.kubectl(t, "rollout", "status", "deployment/web", "--timeout=110s")
	e.awaitPod(t, "default", "done", hasPhase(corev1.PodSucceeded))
	answers := func(ctx context.Context) error {
		_, err := e.page(ctx, "127.0.0.1:31080")
		return err
	}
	eventually(t, answers)
	const what = "jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name} {.metadata.uid} {.spec.clusterIP}\n{end}"
	objects := func() string {
		return e.kubectl(t, "get", "namespaces,configmaps,secrets,serviceaccounts,services,deployments,replicasets,pods,nodes,clusterroles", "-A", "-o", what)
	}
	before, kubeconfig := objects(), read(t, e.Kubeconfig)
	// The signal that Ctrl-C sends. Stop fails when anything is left.
	if err := e.Stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	// The port is part of the kubeconfig, and 0 picks a free one each time.
	if e, err = launch(o); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}()
	if after := objects(); after != before {
		t.Errorf("objects before:\n%s\nafter:\n%s", before, after)
	}
	port := regexp.MustCompile(`server: \S+`)
	if port.ReplaceAllString(read(t, e.Kubeconfig), "") != port.ReplaceAllString(kubeconfig, "") {
		t.Error("the administrator's kubeconfig has changed")
	}
	eventually(t, answers)
	pods, err := e.client.CoreV1().Pods("default").List(bound(t), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		e.awaitPod(t, "default", p.Name, isReady)
	}
	if p := e.awaitPod(t, "default", "done", hasPhase(corev1.PodSucceeded)); p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("a completed pod ran again: %+v", p.Status.ContainerStatuses)
	}
}

func read(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestLiveConfiguration: weights, controllers and the log level change with the
// file, without a restart; what cannot is said.
func TestLiveConfiguration(t *testing.T) {
	t.Parallel()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(repo, "configs", "minimal.yaml"))
	file := filepath.Join(t.TempDir(), "live.yaml")
	change := func(from, to string) {
		t.Helper()
		if !strings.Contains(text, from) {
			t.Fatalf("%q is not in the configuration", from)
		}
		text = strings.Replace(text, from, to, 1)
		// As editors do: a new file takes the old one's place.
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	change("priorities: [{name: LeastRequestedPriority}]", "priorities: [{name: LeastRequestedPriority, weight: 2}]")
	binary(t, "pintle")
	e, err := launch(cluster.Options{Name: "live", Config: file})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := e.AwaitLog(bound(t), "level=DEBUG"); err != nil {
			t.Errorf("no line of level debug: %v", err)
		}
	}()
	change("weight: 2}]", "weight: 7}, {name: BalancedResourceAllocation, weight: 3}]")
	if err := e.AwaitLog(bound(t), "configuration applied", "plugins="); err != nil {
		t.Errorf("weights: %v\n%s", err, e.Log(20))
	}
	change("dataDir:", "logging: {level: debug}\ndataDir:")
	if err := e.AwaitLog(bound(t), "configuration applied", "logging.level", "debug"); err != nil {
		t.Errorf("log level: %v\n%s", err, e.Log(20))
	}
	change("bindAddress: 127.0.0.1", "bindAddress: 127.0.0.2")
	if err := e.AwaitLog(bound(t), "api.bindAddress", "restart"); err != nil {
		t.Errorf("a key that needs a restart: %v\n%s", err, e.Log(20))
	}
	change("weight: 7", "weight: heavy")
	if err := e.AwaitLog(bound(t), "weight", "heavy"); err != nil {
		t.Errorf("a faulty file: %v\n%s", err, e.Log(20))
	}
	// The faulty file changed nothing, and the kernel goes on.
	e.kubectl(t, "get", "--raw", "/readyz")
}

// TestLiveProfile: a profile that is added to the file decides about its pods without
// a restart, also about those that wait for it; without it they wait again.
func TestLiveProfile(t *testing.T) {
	t.Parallel()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, filepath.Join(repo, "configs", "minimal.yaml"))
	file := filepath.Join(t.TempDir(), "profiles.yaml")
	write := func(profiles string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text+profiles), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec: {schedulerName: packer, containers: [{name: c, image: none}]}
`
	const packer = "  - schedulerName: packer\n    predicates: [PodFitsResources]\n    priorities: [{name: BalancedResourceAllocation}]\n"
	write("")
	e := minimal(t, file, "")
	e.schedules(t) // there is a node
	e.apply(t, "default", fmt.Sprintf(pod, "before"))
	write(packer)
	placed := func(name string) {
		t.Helper()
		e.awaitPod(t, "default", name, func(p *corev1.Pod) error {
			if p.Spec.NodeName == "" {
				return fmt.Errorf("pod %s has no node: %v", name, p.Status.Conditions)
			}
			return nil
		})
	}
	placed("before")
	e.apply(t, "default", fmt.Sprintf(pod, "after"))
	placed("after")
	write("")
	eventually(t, func(context.Context) error {
		e.kubectl(t, "delete", "pod", "probe", "--ignore-not-found", "--grace-period=0", "--force")
		e.apply(t, "default", fmt.Sprintf(pod, "probe"))
		out := e.pintle(t, nil, "explain", "pod", "probe")
		if text := out.stdout + out.stderr; !strings.Contains(text, "profile of this kernel") {
			return fmt.Errorf("explain says: %s", text)
		}
		return nil
	})
}

// TestMinimal: the smallest kernel schedules pods onto nodes that somebody else
// runs. It needs no root.
func TestMinimal(t *testing.T) {
	t.Parallel()
	binary(t, "pintle")
	e, err := launch(cluster.Options{Name: "minimal", Config: "configs/minimal.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}()
	e.schedules(t)
	if mode := stat(t, e.Kubeconfig).Mode().Perm(); mode != 0o600 {
		t.Errorf("the administrator's kubeconfig has mode %o", mode)
	}
	// The command embedded in pintle finds the cluster by the data directory.
	r := e.run(t, "", "env", "-u", "KUBECONFIG", "PINTLE_DATADIR="+e.Data, binary(t, "pintle"), "kubectl", "get", "nodes")
	if r.err != nil || !strings.Contains(r.stdout, "paper") {
		t.Errorf("pintle kubectl by data directory: %+v", r)
	}
}

func stat(t testing.TB, file string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// schedules makes two nodes of paper and sees pods bound where they fit.
func (e *env) schedules(t *testing.T) {
	t.Helper()
	for name, taints := range map[string]string{"paper": "[]", "tainted": "[{key: reserved, effect: NoSchedule}]"} {
		e.apply(t, "default", "apiVersion: v1\nkind: Node\nmetadata: {name: "+name+", labels: {kind: paper}}\nspec: {taints: "+taints+"}\n")
		e.kubectl(t, "patch", "node", name, "--subresource=status", "--type=merge", "-p",
			`{"status":{"capacity":{"cpu":"4","memory":"8Gi","pods":"10"},"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"},"conditions":[{"type":"Ready","status":"True"}]}}`)
	}
	// Where no controller looks after nodes, the taint of a new one stays.
	e.try(t, "taint", "nodes", "paper", "tainted", "node.kubernetes.io/not-ready-")
	pod := func(name, rest string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {automountServiceAccountToken: false, nodeSelector: {kind: paper}, " + rest + "containers: [{name: c, image: x, resources: {requests: {cpu: \"3\"}}}]}\n"
	}
	eventually(t, func(context.Context) error {
		// Without a controller nobody makes the service account.
		r := e.try(t, "-n", "default", "get", "serviceaccount", "default")
		if r.err != nil {
			r = e.try(t, "-n", "default", "create", "serviceaccount", "default")
		}
		return r.err
	})
	e.apply(t, "default", pod("first", ""))
	bound := func(want string) func(p *corev1.Pod) error {
		return func(p *corev1.Pod) error {
			if p.Spec.NodeName != want {
				return fmt.Errorf("%s is on %q, want %q: %+v", p.Name, p.Spec.NodeName, want, p.Status.Conditions)
			}
			return nil
		}
	}
	e.awaitPod(t, "default", "first", bound("paper"))
	e.apply(t, "default", pod("second", "")+pod("third", "tolerations: [{operator: Exists}], "))
	e.awaitPod(t, "default", "third", bound("tainted"))
	e.awaitPod(t, "default", "second", func(p *corev1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(c.Message, "1 Insufficient cpu") && strings.Contains(c.Message, "1 node(s) had untolerated taint") {
				return nil
			}
		}
		return fmt.Errorf("%+v", p.Status.Conditions)
	})
	e.kubectl(t, "delete", "pod", "first", "--grace-period=0", "--force")
	e.awaitPod(t, "default", "second", bound("paper"))
}

// TestConfigurations: the other configurations start, say that their plugins
// run as they should, and place pods.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]string{"classic": "wasm", "classic-process": "process"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needContainers(t)
			e := private(t, cluster.Options{Name: name, Config: "configs/" + name + ".yaml"})
			e.kubectl(t, "wait", "--for=condition=Ready", "node", "--all", "--timeout=110s")
			wide := e.kubectl(t, "get", "plugins", "-o", "wide")
			for _, p := range []string{
				"HostName", "MatchNodeSelector", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NoDiskConflict", "NoVolumeZoneConflict", "PodFitsHostPorts", "PodFitsResources",
				"BalancedResourceAllocation", "EqualPriority", "ImageLocalityPriority", "LeastRequestedPriority", "NodeAffinityPriority", "SelectorSpreadPriority", "ServiceSpreadingPriority",
			} {
				if !regexp.MustCompile(`(?mi)^\S*` + p + `\s.*\b` + transport + `\b`).MatchString(wide) {
					t.Errorf("%s does not run as %s:\n%s", p, transport, wide)
				}
			}
			e.kubectl(t, "create", "deployment", "web", "--image="+box, "--replicas=2")
			e.kubectl(t, "rollout", "status", "deployment/web", "--timeout=110s")
			contains(t, e.kubectl(t, "get", "pods", "-o", "wide"), "Running")
			e.schedules(t)
		})
	}
}
