package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// patience is how long a condition of a busy machine may take to come true.
const patience = 2 * time.Minute

// env is a running cluster and what tests talk to it with.
type env struct {
	*cluster.Cluster
	client kubernetes.Interface
	cfg    *rest.Config
}

// shared is the cluster of configs/standalone.yaml that most tests use, each in
// a namespace of its own.
var shared struct {
	once sync.Once
	env  *env
	stop func() error
	err  error
}

// skipped counts the tests that this machine cannot run, by reason.
var skipped struct {
	sync.Mutex
	reasons map[string]int
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: shared cluster:", err)
			code = 1
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(skipped.reasons)) {
		fmt.Printf("e2e: %d tests skipped: %s\n", skipped.reasons[reason], reason)
	}
	os.Exit(code)
}

// skip skips a test and counts it.
func skip(t testing.TB, reason string) {
	t.Helper()
	skipped.Lock()
	if skipped.reasons == nil {
		skipped.reasons = map[string]int{}
	}
	skipped.reasons[reason]++
	skipped.Unlock()
	t.Skip(reason)
}

// needContainers skips where this machine cannot run containers.
func needContainers(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "containers need root")
	}
	if err := mayNamespace(); err != nil {
		skip(t, "this machine gives no network namespaces: "+err.Error())
	}
}

var mayNamespace = sync.OnceValue(func() error {
	n, err := cluster.NewNetwork()
	if err != nil {
		return err
	}
	return n.Close()
})

// standalone returns the shared cluster.
func standalone(t testing.TB) *env {
	t.Helper()
	needContainers(t)
	binary(t, "pintle")
	shared.once.Do(func() {
		shared.env, shared.stop, shared.err = open(cluster.Options{Name: "standalone", Config: "configs/standalone.yaml"})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.env
}

// open starts a cluster with containers in a network of its own, with a
// registry that holds the test images.
func open(o cluster.Options) (*env, func() error, error) {
	network, err := cluster.NewNetwork()
	if err != nil {
		return nil, nil, err
	}
	o.Network = network
	registry, err := serveImages(network)
	if err != nil {
		return nil, nil, errors.Join(err, network.Close())
	}
	e, err := launch(o)
	if err != nil {
		return nil, nil, errors.Join(err, registry.Close(), network.Close())
	}
	return e, func() error {
		err := registry.Close()
		return errors.Join(e.Stop(syscall.SIGTERM), err, network.Close())
	}, nil
}

// launch starts a cluster where o says.
func launch(o cluster.Options) (*env, error) {
	c, err := cluster.Start(context.Background(), o)
	if err != nil {
		return nil, err
	}
	e := &env{Cluster: c}
	if e.client, e.cfg, err = c.Client(); err != nil {
		return nil, errors.Join(err, c.Stop(syscall.SIGTERM))
	}
	return e, nil
}

// launched is launch for one test, at whose end the cluster is stopped in order.
func launched(t *testing.T, o cluster.Options) *env {
	t.Helper()
	e, err := launch(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", o.Name, e.Log(40))
		}
		if err := e.Stop(os.Interrupt); err != nil {
			t.Error(err)
		}
	})
	return e
}

// private is launched in a network of its own.
func private(t *testing.T, o cluster.Options) *env {
	t.Helper()
	binary(t, "pintle")
	e, stop, err := open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s ends with:\n%s", o.Name, e.Log(40))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// bound is the context of one condition or command.
func bound(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually asks again until the condition has no error.
func eventually(t testing.TB, condition func(ctx context.Context) error) {
	t.Helper()
	within(t, patience, condition)
}

// within is eventually with a patience of its own.
func within(t testing.TB, patience time.Duration, condition func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := condition(ctx)
		if err == nil {
			return
		}
		if last == nil || !strings.Contains(err.Error(), "context deadline") {
			last = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", patience, last)
		}
	}
}

// kubectlPath is a kubectl that knows nothing of Pintle, built once.
var kubectlPath = sync.OnceValues(func() (string, error) {
	return buildTool("kubectl", "./e2e/kubectl", "-X k8s.io/component-base/version.gitVersion=v1.37.2")
})

// buildTool builds a static program of the tests into bin/e2e.
func buildTool(name, folder, link string) (string, error) {
	return buildPackage(name, folder, ".", link)
}

// buildPackage builds a program that the module of a folder names.
func buildPackage(name, folder, pkg, link string) (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	bin, err := cluster.Bin()
	if err != nil {
		return "", err
	}
	out := filepath.Join(bin, "e2e", name)
	// From its own folder, which may be a module of its own.
	cmd := exec.Command("go", "build", "-ldflags=-s -w "+link, "-o", out, pkg)
	cmd.Dir, cmd.Env = filepath.Join(repo, folder), append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, text)
	}
	return out, nil
}

// result is what a program wrote.
type result struct {
	stdout, stderr string
	err            error
}

// run runs a program in the cluster's network.
func (e *env) run(t testing.TB, stdin, program string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := e.Command(bound(t), program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	err := e.Network.Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return result{stdout.String(), stderr.String(), err}
}

// try runs kubectl.
func (e *env) try(t testing.TB, args ...string) result {
	t.Helper()
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	return e.run(t, "", path, args...)
}

// kubectl runs kubectl, which has to succeed, and returns its output.
func (e *env) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	r := e.try(t, args...)
	if r.err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), r.err, r.stdout, r.stderr)
	}
	return r.stdout
}

// established waits for a custom resource definition to be served. kubectl wait
// fails where the object has no conditions yet.
func (e *env) established(t testing.TB, name string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		r := e.try(t, "wait", "--for=condition=Established", "crd/"+name, "--timeout=30s")
		return r.err
	})
}

// apply applies manifests from text.
func (e *env) apply(t testing.TB, namespace, manifests string) string {
	t.Helper()
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	r := e.run(t, manifests, path, "apply", "-n", namespace, "-f", "-")
	if r.err != nil {
		t.Fatalf("kubectl apply: %v\n%s%s", r.err, r.stdout, r.stderr)
	}
	return r.stdout
}

// freeNamespace is namespace for pods that reach the machine, which the shipped
// configurations keep out of others.
func (e *env) freeNamespace(t testing.TB) string {
	t.Helper()
	name := e.namespace(t)
	e.kubectl(t, "label", "namespace", name, "pod-security.kubernetes.io/enforce=privileged")
	return name
}

// namespace makes a namespace of this test's own, which goes with the test.
func (e *env) namespace(t testing.TB) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(strings.TrimPrefix(t.Name(), "Test")))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.client.CoreV1().Namespaces().Create(bound(t), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			e.tell(t, name)
		}
		_ = e.client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return name
}

// tell logs what may explain a failure.
func (e *env) tell(t testing.TB, namespace string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	pods, err := e.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, p := range pods.Items {
		t.Logf("pod %s: %s %s %s %v", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message, p.Status.ContainerStatuses)
	}
	events, err := e.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	for _, ev := range events.Items {
		t.Logf("event %s/%s %s: %s", ev.InvolvedObject.Kind, ev.InvolvedObject.Name, ev.Reason, ev.Message)
	}
	t.Logf("kernel:\n%s", e.Log(15))
}

// awaitPod waits until a pod pleases the condition and returns it.
func (e *env) awaitPod(t testing.TB, namespace, name string, condition func(*corev1.Pod) error) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, func(ctx context.Context) (err error) {
		if pod, err = e.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return condition(pod)
	})
	return pod
}

// isReady is a condition for awaitPod.
func isReady(p *corev1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("pod %s is not ready: %s %v", p.Name, p.Status.Phase, p.Status.ContainerStatuses)
}

// hasPhase is a condition for awaitPod.
func hasPhase(phase corev1.PodPhase) func(p *corev1.Pod) error {
	return func(p *corev1.Pod) error {
		if p.Status.Phase == phase {
			return nil
		}
		return fmt.Errorf("pod %s is %s, want %s: %v", p.Name, p.Status.Phase, phase, p.Status.ContainerStatuses)
	}
}

// logs returns what a container has written.
func (e *env) logs(t testing.TB, namespace, pod, container string) string {
	t.Helper()
	data, err := e.client.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(bound(t))
	if err != nil {
		t.Fatalf("logs of %s/%s: %v", pod, container, err)
	}
	return string(data)
}

// contains fails the test when text has not all words.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}
