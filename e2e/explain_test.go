package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const explainConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  directories: [DIR, BIN]
  bundles:
  - name: classic
  - name: picky
  - name: hollow
    privileged: true
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [Picky, MatchNodeSelector, PodFitsResources]
    priorities: [{name: LeastRequestedPriority}]
hollow: {runtime: hollow, nodes: 3}
`

// pickyBundle builds a version of the bundle picky into dir/picky.
func pickyBundle(t *testing.T, dir, version, mood string) string {
	t.Helper()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "picky")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w -X main.mood="+mood, "-o", filepath.Join(dir, "picky.wasm"), "./e2e/testdata/plugins/picky")
	build.Dir, build.Env = repo, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build picky: %v\n%s", err, text)
	}
	manifest := strings.Replace(hostileManifest("picky", "Picky", "predicate"), "version: 0.1.0", "version: "+version, 1)
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(binary(t, "pintle"), "plugin", "seal", dir).CombinedOutput(); err != nil {
		t.Fatalf("seal picky: %v\n%s", err, text)
	}
	return dir
}

// pintle runs a command of the program on the cluster; JSON goes into out.
func (e *env) pintle(t testing.TB, out any, args ...string) result {
	t.Helper()
	if out != nil {
		args = append(args, "-o", "json")
	}
	r := e.run(t, "", binary(t, "pintle"), args...)
	if out != nil && r.err == nil {
		if err := json.Unmarshal([]byte(r.stdout), out); err != nil {
			t.Fatalf("pintle %s: %v\n%s", strings.Join(args, " "), err, r.stdout)
		}
	}
	return r
}

func (r result) must(t testing.TB) string {
	t.Helper()
	if r.err != nil {
		t.Fatalf("%v\n%s%s", r.err, r.stdout, r.stderr)
	}
	return r.stdout
}

func pickyPod(name, cpu, selector string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {%s}
  containers: [{name: c, image: none, resources: {requests: {cpu: %q}}}]
---
`, name, selector, cpu)
}

// TestExplainSimulateShadow: why pods are where they are, where they would go by
// another policy, and what a candidate does beside the version in force.
func TestExplainSimulateShadow(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), t.TempDir()
	pickyBundle(t, dir, "1.0.0", "easy")
	strict := pickyBundle(t, filepath.Join(dir, "strict"), "2.0.0", "picky")
	stuck := pickyBundle(t, filepath.Join(dir, "stuck"), "3.0.0", "stuck")
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(strings.NewReplacer("DIR", dir, "BIN", filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")).Replace(explainConfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *env {
		e, err := launch(cluster.Options{Name: "explain", Config: config, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		e.Env = append(e.Env, "KUBECONFIG="+e.Kubeconfig)
		t.Cleanup(func() {
			select {
			case <-e.Exited():
				return
			default:
			}
			if t.Failed() {
				t.Logf("log ends with:\n%s", e.Log(40))
			}
			if err := e.Stop(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	e := start()
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(nodes.Items) != 3 {
			err = fmt.Errorf("%d nodes", len(nodes.Items))
		}
		return err
	})
	e.kubectl(t, "label", "node", "hollow-0", "tier=gold")
	e.apply(t, "default", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n")
	e.apply(t, "default", pickyPod("golden", "1", "tier: gold")+pickyPod("plain", "1", "")+pickyPod("huge", "1k", "tier: gold"))
	on := func(name, node string) {
		t.Helper()
		e.awaitPod(t, "default", name, func(p *corev1.Pod) error {
			if p.Spec.NodeName == "" || node != "" && p.Spec.NodeName != node {
				return fmt.Errorf("on %q, want %q", p.Spec.NodeName, node)
			}
			return nil
		})
	}
	on("golden", "hollow-0")
	on("plain", "")

	type account struct {
		Source, State, Node, Note, Why string
		Nodes, Feasible                int
		Plugins                        []struct{ Name, Version, Bundle string }
		Details                        []struct {
			Node   string
			Chosen bool
			Scores []struct {
				Priority              string
				Raw, Weight, Weighted int64
			}
		}
	}
	explained := func(now bool) (x account) {
		t.Helper()
		args := []string{"explain", "pod", "golden", "-n", "default"}
		if now {
			args = append(args, "--now")
		}
		e.pintle(t, &x, args...).must(t)
		return x
	}
	x := explained(false)
	if x.Source != "decision" || x.Node != "hollow-0" || x.Feasible != 1 || len(x.Details) != 3 || !x.Details[0].Chosen || x.Why != "hollow-0 is the only node that fits" ||
		x.Plugins[0].Name != "Picky" || x.Plugins[0].Version != "1.0.0" || x.Plugins[1].Bundle != "classic" || len(x.Details[0].Scores) != 1 {
		t.Errorf("explanation %+v", x)
	}
	contains(t, e.pintle(t, nil, "explain", "pod", "huge").must(t),
		"unschedulable, on no node", "WHAT WOULD HAVE TO CHANGE", "without PodFitsResources", "1 node would fit",
		"Insufficient cpu (asks for 1k,", "least lacking:", "MatchNodeSelector: node(s) didn't match", "classic")
	if r := e.pintle(t, nil, "explain", "pod", "nobody"); r.err == nil || !strings.Contains(r.stderr, `pods "nobody" not found`) || exitCode(r.err) != 4 {
		t.Errorf("a pod that is not there: %v\n%s", r.err, r.stderr)
	}
	if r := e.try(t, "get", "--raw", "/inspect/v1alpha1/explain/namespaces/default/pods/golden", "--as", "jane"); r.err == nil ||
		!strings.Contains(r.stderr, `User "jane" cannot get path "/inspect/v1alpha1/explain/namespaces/default/pods/golden"`) {
		t.Errorf("a user without rights: %v\n%s", r.err, r.stderr)
	}

	pods := filepath.Join(dir, "pods.yaml")
	if err := os.WriteFile(pods, []byte(pickyPod("golden", "1", "tier: gold")+pickyPod("plain", "1", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	type report struct {
		Placed, Moved int
		Pods          []struct{ Pod, Node, Message string }
	}
	simulated := func(args ...string) (r report) {
		t.Helper()
		e.pintle(t, &r, append([]string{"simulate", "-f", pods}, args...)...).must(t)
		return r
	}
	file, backup := filepath.Join(dir, "cluster.yaml"), filepath.Join(dir, "cluster.backup")
	if err := os.WriteFile(file, []byte(e.kubectl(t, "get", "nodes,pods", "-A", "-o", "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	e.pintle(t, nil, "store", "backup", backup).must(t)
	offline := []string{"--config", config}
	for name, args := range map[string][]string{
		"live": nil, "file": append(offline, "--snapshot", file), "backup": append(offline, "--snapshot", backup),
	} {
		if r := simulated(args...); r.Placed != 2 || r.Pods[0].Node != "hollow-0" {
			t.Errorf("%s: %+v", name, r)
		}
		if r := simulated(append(args, "--with", "picky="+strict)...); r.Placed != 1 || r.Moved != 1 || !strings.Contains(r.Pods[0].Message, "1 node(s) were too good") {
			t.Errorf("%s with another build: %+v", name, r)
		}
	}
	if r := simulated("--disable", "MatchNodeSelector", "--set", "LeastRequestedPriority=3"); r.Placed != 2 {
		t.Errorf("with other settings: %+v", r)
	}
	if r := e.pintle(t, nil, "simulate", "-f", pods, "--disable", "Nothing"); r.err == nil || !strings.Contains(r.stderr, "no profile uses Nothing") {
		t.Errorf("a plugin that is not there: %v\n%s", r.err, r.stderr)
	}
	if list := e.kubectl(t, "get", "pods", "-o", "name"); strings.Count(list, "pod/") != 3 {
		t.Errorf("a simulation wrote: %s", list)
	}

	type diff struct {
		State, Message, LastFailure                     string
		Compared, Disagreed, Elsewhere, Failed, Skipped int64
		Candidate                                       struct{ Version string }
		Disagreements                                   []struct {
			Pod, Node, Candidate string
			Elsewhere            bool
			Answers              []struct{ Node, Plugin, Present, Candidate string }
		}
	}
	count := 0
	place := func(selector, node string) {
		t.Helper()
		name := fmt.Sprint("p", count)
		count++
		e.apply(t, "default", pickyPod(name, "1m", selector))
		on(name, node)
	}
	e.pintle(t, nil, "plugin", "shadow", "Picky", "--path", strict, "--data", data).must(t)
	var d diff
	for end := time.Now().Add(patience); d.Elsewhere == 0; {
		if time.Now().After(end) {
			t.Fatalf("no disagreement: %+v", d)
		}
		place("tier: gold", "hollow-0")
		if r := e.pintle(t, &d, "plugin", "diff", "Picky"); r.err != nil && !strings.Contains(r.stderr, "has no candidate") {
			r.must(t)
		}
	}
	if g := d.Disagreements[0]; d.State != "Ready" || d.Candidate.Version != "2.0.0" || g.Node != "hollow-0" || g.Candidate != "" || !g.Elsewhere || len(g.Answers) != 1 ||
		g.Answers[0].Node != "hollow-0" || g.Answers[0].Plugin != "Picky" || g.Answers[0].Candidate != "Picky: node(s) were too good" {
		t.Errorf("diff %+v", d)
	}
	contains(t, e.pintle(t, nil, "plugin", "diff", "Picky").must(t), "CANDIDATE", "2.0.0", "pods would be elsewhere", "Picky: node(s) were too good")
	eventually(t, func(context.Context) error {
		if got := e.kubectl(t, "get", "plugin", "Picky", "-o", "jsonpath={.status.shadow.disagreements}"); got == "" || got == "0" {
			return fmt.Errorf("status.shadow.disagreements %q", got)
		}
		return nil
	})

	// A candidate that hangs counts as one that failed, and pods go on.
	e.pintle(t, nil, "plugin", "shadow", "Picky", "--path", stuck, "--data", data).must(t)
	d = diff{}
	for end := time.Now().Add(patience); d.Candidate.Version != "3.0.0" || d.Failed+d.Skipped == 0; {
		if time.Now().After(end) {
			t.Fatalf("the candidate that hangs is not told of: %+v", d)
		}
		place("tier: gold", "hollow-0")
		e.pintle(t, &d, "plugin", "diff", "Picky")
	}
	if d.Compared != 0 {
		t.Errorf("compared with a candidate that hangs: %+v", d)
	}
	e.pintle(t, nil, "plugin", "shadow", "Picky", "--off").must(t)
	eventually(t, func(context.Context) error {
		if r := e.pintle(t, nil, "plugin", "diff", "Picky"); r.err == nil || !strings.Contains(r.stderr, "has no candidate") {
			return fmt.Errorf("%v %s%s", r.err, r.stdout, r.stderr)
		}
		return nil
	})

	// After a restart the decision is gone, and the answer says so.
	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e = start()
	eventually(t, func(context.Context) error {
		if r := e.pintle(t, nil, "explain", "pod", "golden"); r.err != nil {
			return fmt.Errorf("%w: %s", r.err, r.stderr)
		}
		return nil
	})
	if x := explained(false); x.Source != "evaluation" || x.Node != "hollow-0" || !strings.Contains(x.Note, "no longer kept") {
		t.Errorf("after a restart: %+v", x)
	}
}

// exitCode is that of a command's error.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
