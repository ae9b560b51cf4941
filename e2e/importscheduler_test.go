package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const importedScheduler = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packer
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}, {name: memory, weight: 1}]}}
  plugins:
    multiPoint: {disabled: [{name: PodTopologySpread}]}
    preScore: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}
    score: {disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}]}
extenders:
- urlPrefix: EXTENDER
  filterVerb: filter
  nodeCacheCapable: true
  managedResources: [{name: example.com/dongle, ignoredByScheduler: true}]
`

const importInto = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [BIN]
  bundles:
  - name: controllers
  - name: hollow
    privileged: true
controllers: {enabled: [namespace, serviceaccount, nodelifecycle, tainteviction]}
hollow: {runtime: hollow, nodes: 3}
`

// TestImportScheduler: a KubeSchedulerConfiguration is translated and runs: its
// profiles place by their own arguments, its extender has its say, and /configz
// and /metrics tell of it in kube-scheduler's words.
func TestImportScheduler(t *testing.T) {
	t.Parallel()
	// The cluster has a network of its own, in which the port is free.
	const address = "127.0.0.1:18899"
	extender := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args extenderv1.ExtenderArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil || args.NodeNames == nil {
			http.Error(w, "no names of nodes", http.StatusBadRequest)
			return
		}
		left, failed := []string{}, extenderv1.FailedNodesMap{}
		for _, name := range *args.NodeNames {
			if name == "hollow-1" && args.Pod.Name != "greedy" {
				left = append(left, name)
			} else {
				failed[name] = "node(s) had no dongle"
			}
		}
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &left, FailedNodes: failed})
	}))
	bin, err := cluster.Bin()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	from := write("scheduler.yaml", strings.Replace(importedScheduler, "EXTENDER", "http://"+address, 1))
	into := write("into.yaml", strings.Replace(importInto, "BIN", filepath.Join(bin, "plugins"), 1))
	result := filepath.Join(dir, "pintle.yaml")
	if out, err := exec.CommandContext(t.Context(), binary(t, "pintle"), "config", "import-scheduler", from, "--into", into, "-o", result).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), binary(t, "pintle"), "config", "import-scheduler", write("bad.yaml", strings.Replace(importedScheduler, "nodeCacheCapable", "nodeCacheAble", 1))).CombinedOutput(); err == nil || !strings.Contains(string(out), "bad.yaml:17: extenders[0].nodeCacheAble: unknown field") {
		t.Errorf("an unknown field: %v\n%s", err, out)
	}
	offline(t, dir, result, "http://"+address)

	e := private(t, cluster.Options{Name: "importscheduler", Config: result})
	listener, err := e.Network.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	extender.Listener.Close()
	extender.Listener = listener
	extender.Start()
	t.Cleanup(extender.Close)
	condition := func(t *testing.T, what string, met func(ctx context.Context) (bool, string)) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			if ok, instead := met(ctx); !ok {
				return fmt.Errorf("%s: %s", what, instead)
			}
			return nil
		})
	}
	condition(t, "the nodes are ready", func(ctx context.Context) (bool, string) {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		free := 0
		for i := range nodes.Items {
			if len(nodes.Items[i].Spec.Taints) == 0 {
				free++
			}
		}
		return free == 3, fmt.Sprintf("%d of 3 nodes without taints", free)
	})
	pod := func(name, scheduler, resource string) *corev1.Pod {
		var p corev1.Pod
		text := fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"schedulerName": %q, "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {%s}}}]}}`, name, scheduler, resource)
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	node := func(name, scheduler, resource string) string {
		t.Helper()
		condition(t, "create "+name, func(ctx context.Context) (bool, string) {
			_, err := e.client.CoreV1().Pods("default").Create(ctx, pod(name, scheduler, resource), metav1.CreateOptions{})
			return err == nil, fmt.Sprint(err)
		})
		var on string
		condition(t, name+" is placed", func(ctx context.Context) (bool, string) {
			p, err := e.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			on = p.Spec.NodeName
			return on != "", fmt.Sprintf("on no node: %v", p.Status.Conditions)
		})
		return on
	}
	spread, packed := map[string]bool{}, map[string]bool{}
	first := node("first", "packer", "")
	for i := range 3 {
		packed[node(fmt.Sprint("packed-", i), "packer", "")] = true
	}
	if len(packed) != 1 || !packed[first] {
		t.Errorf("profile packer placed on %v after %s", packed, first)
	}
	for i := range 2 {
		spread[node(fmt.Sprint("spread-", i), "default-scheduler", "")] = true
	}
	if len(spread) != 2 || spread[first] {
		t.Errorf("the default profile placed on %v beside %s", spread, first)
	}
	const dongle = `"example.com/dongle": "1"`
	if on := node("dongle", "default-scheduler", dongle); on != "hollow-1" {
		t.Errorf("the pod of the extender is on %s", on)
	}
	if _, err := e.client.CoreV1().Pods("default").Create(bound(t), pod("greedy", "default-scheduler", dongle), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	condition(t, "greedy is refused", func(ctx context.Context) (bool, string) {
		p, err := e.client.CoreV1().Pods("default").Get(ctx, "greedy", metav1.GetOptions{})
		if err != nil {
			return false, err.Error()
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled {
				return strings.HasPrefix(c.Message, "0/3 nodes are available: 3 node(s) had no dongle."), c.Message
			}
		}
		return false, "no condition"
	})

	raw := func(path string) []byte {
		body, err := e.client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(bound(t))
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	var told map[string]json.RawMessage
	if err := json.Unmarshal(raw("/configz"), &told); err != nil {
		t.Fatal(err)
	}
	var running schedulerv1.KubeSchedulerConfiguration
	if err := json.Unmarshal(told["kubescheduler.config.k8s.io"], &running); err != nil {
		t.Fatal(err)
	}
	if len(running.Profiles) != 2 || *running.Profiles[1].SchedulerName != "packer" || len(running.Profiles[1].Plugins.Score.Enabled) != 1 ||
		running.Profiles[1].Plugins.Score.Enabled[0].Name != "NodeResourcesFit" || len(running.Extenders) != 1 || running.Extenders[0].URLPrefix != "http://"+address {
		t.Errorf("configz: %s", told["kubescheduler.config.k8s.io"])
	}
	wants := []string{
		`scheduler_schedule_attempts_total{profile="packer",result="scheduled"} 4`,
		`scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="packer",status="Success"} 4`,
		`scheduler_plugin_evaluation_total{extension_point="Score",plugin="NodeResourcesFit",profile="packer"} 4`,
		`scheduler_plugin_execution_duration_seconds_count{extension_point="Filter",plugin="NodeResourcesFit",status="Success"}`,
		`scheduler_cache_size{type="nodes"} 3`,
	}
	// What the scheduler knows is counted every few seconds.
	eventually(t, func(context.Context) error {
		metrics := string(raw("/metrics"))
		for _, want := range wants {
			if !strings.Contains(metrics, want) {
				return fmt.Errorf("metrics have no %s", want)
			}
		}
		return nil
	})
}

const dongled = `
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n0}
  status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110", example.com/dongle: "1"}}
`

const wantsDongle = `
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec:
  containers: [{name: c, image: i, resources: {requests: {example.com/dongle: "1"}, limits: {example.com/dongle: "1"}}}]
`

// offline: about a file extenders are asked when that is wanted, and otherwise named
// as not asked. Nobody listens at the extender's address yet.
func offline(t *testing.T, dir, config, url string) {
	t.Helper()
	for name, text := range map[string]string{"nodes.yaml": dongled, "pod.yaml": wantsDongle} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		flags []string
		fails bool
		want  []string
	}{
		{nil, false, []string{"1 of 1 pods would be placed", "NOT ASKED", "extender " + url + ","}},
		{[]string{"--extenders"}, true, []string{"simulate pod default/p", url + "/filter"}},
	} {
		args := append([]string{"simulate", "-f", filepath.Join(dir, "pod.yaml"), "--snapshot", filepath.Join(dir, "nodes.yaml"), "--config", config, "--data", filepath.Join(dir, "none")}, c.flags...)
		out, err := exec.CommandContext(t.Context(), binary(t, "pintle"), args...).CombinedOutput()
		if (err != nil) != c.fails {
			t.Errorf("%v: %v\n%s", c.flags, err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%v: want %q in\n%s", c.flags, want, out)
			}
		}
	}
}
