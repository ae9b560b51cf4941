package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// buffer is what a program prints, while it prints.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// hollowProgram is a running pintle hollow with a folder for temporary files of its own.
type hollowProgram struct {
	cmd  *exec.Cmd
	said buffer
	temp string
	done chan struct{}
}

func startHollow(t *testing.T, args ...string) *hollowProgram {
	t.Helper()
	temp, err := os.MkdirTemp("", "pth") // paths of sockets lie below it, which t.TempDir makes too long
	if err != nil {
		t.Fatal(err)
	}
	h := &hollowProgram{temp: temp, done: make(chan struct{})}
	h.cmd = exec.Command(binary(t, "pintle"), append([]string{"hollow"}, args...)...)
	h.cmd.Env = append(os.Environ(), "TMPDIR="+temp, "KUBECONFIG=")
	h.cmd.Stdout, h.cmd.Stderr = &h.said, &h.said
	h.cmd.WaitDelay = 5 * time.Second
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := cluster.StartProcess(h.cmd); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = h.cmd.Wait()
		close(h.done)
	}()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-h.done
		if t.Failed() {
			t.Logf("pintle hollow said:\n%s", h.said.String())
		}
		_ = os.RemoveAll(temp)
	})
	return h
}

// await waits until the program has printed words.
func (h *hollowProgram) await(t *testing.T, words string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if !strings.Contains(h.said.String(), words) {
			return fmt.Errorf("pintle hollow did not say %q, but:\n%s", words, h.said.String())
		}
		return nil
	})
}

// ended waits for the end and returns the exit code and what was printed.
func (h *hollowProgram) ended(t *testing.T) (int, string) {
	t.Helper()
	select {
	case <-h.done:
	case <-time.After(patience):
		t.Fatalf("pintle hollow goes on:\n%s", h.said.String())
	}
	return h.cmd.ProcessState.ExitCode(), h.said.String()
}

// stop stops the program in order.
func (h *hollowProgram) stop(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, said := h.ended(t); code != 0 || !strings.HasSuffix(said, "stopping\nstopped\n") {
		t.Errorf("exit code %d:\n%s", code, said)
	}
}

const hollowProcessConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  bundles:
  - {name: classic, transport: process}
  - {name: controllers}
  - {name: hollow, privileged: true}
scheduler:
  profiles:
  - {schedulerName: default-scheduler, predicates: [CheckNodeUnschedulable, PodToleratesNodeTaints, MatchNodeSelector, PodFitsResources], priorities: [{name: LeastRequestedPriority}]}
controllers:
  enabled: [deployment, replicaset, nodelifecycle, tainteviction, namespace, serviceaccount]
hollow: {runtime: hollow, nodes: 1}
`

// TestHollowProcess: simulated nodes in a process of their own, by the network alone; what
// that process may not have is refused, and nothing is left of it.
func TestHollowProcess(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(hollowProcessConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e := minimal(t, config, "")
	apart := startHollow(t, "--kubeconfig", e.Kubeconfig, "--nodes", "5", "--name", "apart", "--node-labels", "place=apart",
		"--register-with-taints", "only=apart:NoSchedule", "--max-pods", "7", "--capacity", "cpu=4", "--extended-resources", "example.com/gpu=2")
	apart.await(t, "ready in ")

	nodes, err := e.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "place=apart"})
	if err != nil || len(nodes.Items) != 5 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	ranges := map[string]bool{}
	for _, n := range nodes.Items {
		gpu := n.Status.Capacity["example.com/gpu"]
		if n.Status.Capacity.Pods().Value() != 7 || n.Status.Capacity.Cpu().Value() != 4 || gpu.Value() != 2 || len(n.Spec.Taints) == 0 || ranges[n.Spec.PodCIDR] {
			t.Errorf("node %s: %v, taints %v, range %s", n.Name, n.Status.Capacity, n.Spec.Taints, n.Spec.PodCIDR)
		}
		ranges[n.Spec.PodCIDR] = true
		eventually(t, func(ctx context.Context) error {
			_, err := e.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, n.Name, metav1.GetOptions{})
			return err
		})
	}
	e.kubectl(t, "create", "namespace", "a")
	e.apply(t, "a", simulated("web", 20, "      nodeSelector: {place: apart}\n      tolerations: [{key: only, operator: Exists}]\n"))
	e.awaitReadyPods(t, "a", 20)
	if out := e.try(t, "logs", "-n", "a", "deployment/web"); !strings.Contains(said(out), "simulates its pods") {
		t.Errorf("logs of a simulated pod: %s", said(out))
	}

	t.Run("refused", func(t *testing.T) { refusedHollow(t, e) })

	// The runtime's process is started again, and the pods with it.
	runtime := apart.children(t, "hollow")
	if len(runtime) != 1 {
		t.Fatalf("processes of the runtime: %v", runtime)
	}
	if err := syscall.Kill(runtime[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "scale", "-n", "a", "deployment/web", "--replicas=30")
	e.awaitReadyPods(t, "a", 30)

	apart.stop(t)
	if left, err := os.ReadDir(apart.temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if left := apart.children(t, ""); len(left) > 0 {
		t.Errorf("processes %v go on", left)
	}
	lease, err := e.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), "pintle-hollow-apart", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the Lease of the names: %v %v", lease, err)
	}
	// The next one takes the nodes over at once, and brings up more pods.
	again := startHollow(t, "--kubeconfig", e.Kubeconfig, "--nodes", "5", "--name", "apart")
	again.await(t, "ready in ")
	e.kubectl(t, "scale", "-n", "a", "deployment/web", "--replicas=33")
	e.awaitReadyPods(t, "a", 33)
	again.stop(t)
	e.stop(t)
}

// children are the processes of the program's session besides itself, of an executable
// with that name; "" is any.
func (h *hollowProgram) children(t *testing.T, name string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == h.cmd.Process.Pid {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
		exe, _ := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		ours := fields[1] == fmt.Sprint(h.cmd.Process.Pid) || len(fields) > 3 && fields[3] == fmt.Sprint(h.cmd.Process.Pid)
		if ours && fields[0] != "Z" && (name == "" || filepath.Base(exe) == name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitReadyPods waits until so many pods are ready and no other is there.
func (e *env) awaitReadyPods(t *testing.T, namespace string, want int) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pods, err := e.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Status.Phase == corev1.PodRunning && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				ready++
			}
		}
		if ready != want || len(pods.Items) != want {
			return fmt.Errorf("%d pods are ready of %d, want %d", ready, len(pods.Items), want)
		}
		return nil
	})
}

// refusedHollow begins processes that must not run, and looks at what each says.
func refusedHollow(t *testing.T, e *env) {
	e.kubectl(t, "create", "serviceaccount", "nobody", "-n", "default")
	token := strings.TrimSpace(e.kubectl(t, "create", "token", "nobody", "-n", "default"))
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.WriteFile(elsewhere, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
 clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no kubeconfig":     {nil, 2, "--kubeconfig names the cluster"},
		"no such file":      {[]string{"--kubeconfig", "/nosuch"}, 2, "kubeconfig /nosuch"},
		"a broken file":     {[]string{"--kubeconfig", broken}, 2, "kubeconfig " + broken},
		"no server":         {[]string{"--kubeconfig", elsewhere}, 1, "API server https://127.0.0.1:1 was not reached"},
		"a wrong token":     {[]string{"--kubeconfig", tokenKubeconfig(t, e, "x.y.z")}, 1, "does not accept the credentials"},
		"no rights":         {[]string{"--kubeconfig", tokenKubeconfig(t, e, token)}, 1, "may not impersonate users system:node:hollow-0"},
		"the same names":    {[]string{"--kubeconfig", e.Kubeconfig, "--name", "apart", "--nodes", "2"}, 1, "are those of another process"},
		"a kernel's names":  {[]string{"--kubeconfig", e.Kubeconfig}, 1, "node hollow-0 has an agent elsewhere"},
		"no nodes":          {[]string{"--kubeconfig", e.Kubeconfig, "--nodes", "0"}, 2, "--nodes 0: want 1 to 65536"},
		"too many":          {[]string{"--kubeconfig", e.Kubeconfig, "--nodes", "70000"}, 2, "--nodes 70000"},
		"an odd name":       {[]string{"--kubeconfig", e.Kubeconfig, "--name", "../up"}, 2, `--name "../up"`},
		"an odd taint":      {[]string{"--kubeconfig", e.Kubeconfig, "--register-with-taints", "a:b"}, 2, `taint "a:b"`},
		"an argument":       {[]string{"--kubeconfig", e.Kubeconfig, "more"}, 2, "unknown command"},
		"no runtime plugin": {[]string{"--kubeconfig", e.Kubeconfig, "--name", "bare", "--plugins", t.TempDir()}, 1, "runtime plugin hollow"},
	} {
		t.Run(name, func(t *testing.T) {
			h := startHollow(t, tc.args...)
			if code, said := h.ended(t); code != tc.code || !strings.Contains(said, tc.want) {
				t.Errorf("exit code %d, want %d, and it did not say %q:\n%s", code, tc.code, tc.want, said)
			}
			if left, err := os.ReadDir(h.temp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
	for _, name := range []string{"hollow-1", "bare-0"} {
		if _, err := e.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("node %s: %v", name, err)
		}
	}
}
