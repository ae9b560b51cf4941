package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/e2e/cluster"
)

// deployment is a Deployment of box with a readiness probe.
func deployment(name, image string, replicas int) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 1}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: box
        image: %[2]s
        args: [serve]
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}
---
`, name, image, replicas)
}

// service is a Service of the pods of a deployment.
func service(name, app string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: %s}, ports: [{port: 80, targetPort: 8080}]}\n---\n", name, app)
}

// life is what a restart of a container would change.
type life struct {
	uid       types.UID
	container string
	restarts  int32
	node      string
}

// lives returns the pods of an app, by name.
func (e *env) lives(t *testing.T, namespace, app string) map[string]life {
	t.Helper()
	list, err := e.client.CoreV1().Pods(namespace).List(bound(t), metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]life{}
	for _, p := range list.Items {
		l := life{uid: p.UID, node: p.Spec.NodeName}
		for _, c := range p.Status.ContainerStatuses {
			l.container += c.ContainerID
			l.restarts += c.RestartCount
		}
		all[p.Name] = l
	}
	return all
}

// rolledOut waits until a deployment is complete with its present template.
func (e *env) rolledOut(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		d, err := e.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s := d.Status
		if want := *d.Spec.Replicas; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != want || s.AvailableReplicas != want || s.Replicas != want {
			return fmt.Errorf("deployment %s is not rolled out: %+v", name, s)
		}
		return nil
	})
}

// answers waits until a service gives a page of one of the app's pods.
func (e *env) answers(t *testing.T, namespace, service, app string) {
	t.Helper()
	svc, err := e.client.CoreV1().Services(namespace).Get(bound(t), service, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		page, err := e.page(ctx, svc.Spec.ClusterIP+":80")
		if err == nil && !strings.HasPrefix(page, app+"-") {
			err = fmt.Errorf("service %s answers %q", service, page)
		}
		return err
	})
}

// crashable is a cluster that a test may kill: network, registry and data
// directory outlive its kernel.
func crashable(t *testing.T, o cluster.Options) (start func(set ...string) *env) {
	t.Helper()
	needContainers(t)
	binary(t, "pintle")
	network, err := cluster.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	registry, err := serveImages(network)
	if err != nil {
		t.Fatal(errors.Join(err, network.Close()))
	}
	// Short, since paths of sockets lie below it.
	data, err := os.MkdirTemp("", "pte")
	if err != nil {
		t.Fatal(errors.Join(err, registry.Close(), network.Close()))
	}
	o.Network, o.Data = network, data
	var e *env
	t.Cleanup(func() {
		if e != nil {
			if t.Failed() {
				t.Logf("log of %s ends with:\n%s", o.Name, e.Log(60))
			}
			e.stop(t)
		}
		if err := errors.Join(registry.Close(), network.Close(), os.RemoveAll(data)); err != nil {
			t.Error(err)
		}
	})
	return func(set ...string) *env {
		t.Helper()
		with := o
		with.Set = slices.Concat(o.Set, set)
		next, err := launch(with)
		if err != nil {
			t.Fatal(err)
		}
		e = next
		return e
	}
}

// awaitAccount waits for the service account that pods of a namespace need.
func (e *env) awaitAccount(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// pluginPid is the process of a plugin, as the API has it.
func (e *env) pluginPid(ctx context.Context, t *testing.T, name string) (pid int, state string, err error) {
	t.Helper()
	r := e.try(t, "get", "plugins", name, "-o", "jsonpath={.status.pid} {.status.state}")
	if r.err != nil {
		return 0, "", fmt.Errorf("%w: %s", r.err, r.stderr)
	}
	_, err = fmt.Sscan(r.stdout, &pid, &state)
	return pid, state, err
}

// TestKernelKilled kills the kernel in the middle of a rollout, while a client
// writes: the next one goes on with the rollout, no container of an untouched
// pod restarts, nothing acknowledged is missing, and its plugins' processes
// went with the killed kernel.
func TestKernelKilled(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "killed", Config: "configs/standalone.yaml"})
	e := start()
	const ns = "default"
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment("untouched", box, 2)+deployment("rolling", box, 4)+service("untouched", "untouched"))
	e.rolledOut(t, ns, "untouched")
	e.rolledOut(t, ns, "rolling")
	e.answers(t, ns, "untouched", "untouched")
	before := e.lives(t, ns, "untouched")
	_, generation, err := e.pluginPid(t.Context(), t, "containerd")
	if err != nil || generation != "Ready" {
		t.Fatalf("containerd is %s: %v", generation, err)
	}

	// Each writer notes what was acknowledged, until the kernel is gone.
	var mu sync.Mutex
	acknowledged := []string{}
	var writers sync.WaitGroup
	client := e.client
	for w := range 4 {
		writers.Go(func() {
			for i := 0; t.Context().Err() == nil; i++ {
				name := fmt.Sprintf("written-%d-%d", w, i)
				_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"name": name},
				}, metav1.CreateOptions{})
				if err != nil {
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, name)
				mu.Unlock()
			}
		})
	}
	e.apply(t, ns, deployment("rolling", registryAddress+"/box:2", 4))
	eventually(t, func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(ns).Get(ctx, "rolling", metav1.GetOptions{})
		if err == nil && d.Status.UpdatedReplicas == 0 {
			err = errors.New("the rollout has not begun")
		}
		return err
	})
	old := e.Pid()
	e.Kill()
	writers.Wait()
	if len(acknowledged) == 0 {
		t.Fatal("nothing was written before the kernel was killed")
	}
	eventually(t, func(context.Context) error {
		if left := cluster.Processes(old, e.Data); len(left) > 0 {
			return fmt.Errorf("processes of the killed kernel go on: %q", left)
		}
		return nil
	})

	e = start()
	e.kept(t, acknowledged...)
	if err := e.AwaitLog(bound(t), "runtime is ready", "found the running containerd"); err != nil {
		t.Errorf("containerd was not found again: %v", err)
	}
	e.rolledOut(t, ns, "rolling")
	eventually(t, func(ctx context.Context) error {
		pods, err := e.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=rolling"})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if image := p.Spec.Containers[0].Image; image != registryAddress+"/box:2" {
				return fmt.Errorf("pod %s still has %s", p.Name, image)
			}
		}
		if len(pods.Items) != 4 {
			return fmt.Errorf("%d pods after the rollout, want 4", len(pods.Items))
		}
		return nil
	})
	if after := e.lives(t, ns, "untouched"); !maps.Equal(before, after) {
		t.Errorf("untouched pods:\nbefore %v\nafter  %v", before, after)
	}
	e.answers(t, ns, "untouched", "untouched")
	for name := range before {
		if log := e.logs(t, ns, name, "box"); strings.Count(log, "serving") > 1 {
			t.Errorf("pod %s served twice:\n%s", name, log)
		}
	}
	// The cluster takes new work.
	e.kubectl(t, "-n", ns, "scale", "deployment/untouched", "--replicas=3")
	e.rolledOut(t, ns, "untouched")
}

// TestPluginProcessesKilled kills each process plugin in turn: it is back, and
// work of every kind goes on, without a restart of a container.
func TestPluginProcessesKilled(t *testing.T) {
	t.Parallel()
	// The userspace proxy is the harder case: its data path ends with it.
	start := crashable(t, cluster.Options{Name: "plugins-killed", Config: "configs/classic-process.yaml", Set: []string{"node.proxies=[userspace]"}})
	e := start()
	const ns = "default"
	e.awaitAccount(t, ns)
	e.apply(t, ns, deployment("web", box, 1)+service("web", "web"))
	e.rolledOut(t, ns, "web")
	e.answers(t, ns, "web", "web")
	first := e.lives(t, ns, "web")
	for i, plugin := range []string{"HostName", "deployment", "containerd", "userspace"} {
		t.Run(plugin, func(t *testing.T) {
			var pid int
			eventually(t, func(ctx context.Context) (err error) {
				var state string
				if pid, state, err = e.pluginPid(ctx, t, plugin); err == nil && (pid == 0 || state != "Ready") {
					err = fmt.Errorf("plugin %s is %s with pid %d", plugin, state, pid)
				}
				return err
			})
			mine := slices.ContainsFunc(cluster.Processes(e.Pid(), e.Data), func(p string) bool { return strings.HasPrefix(p, strconv.Itoa(pid)+" ") })
			if !mine {
				t.Fatalf("process %d of plugin %s is not of this cluster", pid, plugin)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			// Work is asked for at once, while it is down.
			more := fmt.Sprintf("more-%d", i)
			e.apply(t, ns, deployment(more, box, 1)+service(more, more))
			e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas="+strconv.Itoa(i+2))
			e.rolledOut(t, ns, more)
			e.rolledOut(t, ns, "web")
			e.answers(t, ns, more, more)
			e.answers(t, ns, "web", "web")
			eventually(t, func(ctx context.Context) error {
				now, state, err := e.pluginPid(ctx, t, plugin)
				if err == nil && (now == pid || state != "Ready") {
					err = fmt.Errorf("plugin %s is %s with pid %d", plugin, state, now)
				}
				return err
			})
			contains(t, e.kubectl(t, "get", "plugins", plugin, "-o", "wide"), "started again after: plugin bundle")
		})
	}
	for name, l := range e.lives(t, ns, "web") {
		if was, ok := first[name]; ok && was != l || l.restarts != 0 {
			t.Errorf("pod %s: %v, was %v", name, l, was)
		}
	}
}
