package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestProbes: readiness, liveness and startup probes with each of the four
// handlers, over a container that is well until it is told otherwise.
func TestProbes(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	handlers := map[string]string{
		"http": `httpGet: {path: /healthz, port: web, httpHeaders: [{name: X-Who, value: kubelet}]}`,
		"grpc": `grpc: {port: 9090}`,
		"tcp":  `tcpSocket: {port: web}`,
		"exec": `exec: {command: [/box, exists, /box]}`,
	}
	var all strings.Builder
	for name, handler := range handlers {
		fmt.Fprintf(&all, `
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: probed}}
spec:
  containers:
  - name: c
    image: %s
    args: [serve]
    ports: [{name: web, containerPort: 8080}]
    startupProbe: {%s, periodSeconds: 1, failureThreshold: 60}
    readinessProbe: {%s, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {%s, periodSeconds: 1, failureThreshold: 3}
`, name, box, handler, handler, handler)
	}
	e.apply(t, ns, all.String())
	ips := map[string]string{}
	for name := range handlers {
		pod := e.awaitPod(t, ns, name, isReady)
		if s := pod.Status.ContainerStatuses[0]; s.Started == nil || !*s.Started {
			t.Errorf("%s is ready and not started", name)
		}
		ips[name] = pod.Status.PodIP
	}
	sick := map[string]string{
		"http": "Readiness probe failed: HTTP probe failed with statuscode: 503",
		"grpc": `Readiness probe failed: service unhealthy (responded with "NOT_SERVING")`,
	}
	for name := range sick {
		resp, err := e.http().Get("http://" + ips[name] + ":8080/sick")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	for name, message := range sick {
		// First not ready, then killed by the liveness probe and well again.
		pod := e.awaitPod(t, ns, name, func(p *corev1.Pod) error {
			if n := p.Status.ContainerStatuses[0].RestartCount; n != 1 {
				return fmt.Errorf("%s has restarted %d times", name, n)
			}
			return isReady(p)
		})
		if l := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated; l == nil {
			t.Errorf("%s: no last state", name)
		}
		eventually(t, func(ctx context.Context) error {
			out := e.kubectl(t, "-n", ns, "get", "events", "--field-selector", "involvedObject.name="+name)
			for _, w := range []string{"Unhealthy", message, strings.Replace(message, "Readiness", "Liveness", 1), "Killing", "Container c failed liveness probe, will be restarted"} {
				if !strings.Contains(out, w) {
					return fmt.Errorf("%q is not among the events:\n%s", w, out)
				}
			}
			return nil
		})
	}
	for _, name := range []string{"tcp", "exec"} {
		pod := e.awaitPod(t, ns, name, isReady)
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("%s has restarted %d times without a reason", name, n)
		}
	}
}

// TestProbeFailures: the words of handlers that cannot succeed, and a startup
// probe that gives up.
func TestProbeFailures(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: unready}
spec:
  containers:
  - {name: exec, image: `+box+`, readinessProbe: {exec: {command: [/box, exists, /nothing]}, periodSeconds: 1}}
  - {name: tcp, image: `+box+`, readinessProbe: {tcpSocket: {port: 1}, periodSeconds: 1}}
  - {name: http, image: `+box+`, readinessProbe: {httpGet: {port: 1}, periodSeconds: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: unstarted}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: `+box+`, startupProbe: {exec: {command: [/box, exists, /nothing]}, periodSeconds: 1, failureThreshold: 2}}]
`)
	eventually(t, func(ctx context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		for _, w := range []string{
			"Readiness probe failed: box exists: stat /nothing: no such file or directory",
			"connect: connection refused", "Startup probe failed", "Container c failed startup probe, will be restarted",
		} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not among the events:\n%s", w, out)
			}
		}
		return nil
	})
	pod := e.awaitPod(t, ns, "unready", hasPhase(corev1.PodRunning))
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady && (c.Status != corev1.ConditionFalse || c.Reason != "ContainersNotReady" || c.Message != "containers with unready status: [exec tcp http]") {
			t.Errorf("%+v", c)
		}
	}
}

// TestReadinessGatesService: a pod that is not ready gets no packet of a
// service, and is told apart in its EndpointSlice.
func TestReadinessGatesService(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: `+box+`, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`)
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	svc, err := e.client.CoreV1().Services(ns).Get(bound(t), "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address := svc.Spec.ClusterIP + ":80"
	answers := func(ctx context.Context, n int) (map[string]bool, error) {
		who := map[string]bool{}
		for range n {
			page, err := e.page(ctx, address)
			if err != nil {
				return nil, err
			}
			who[strings.Fields(page)[0]] = true
		}
		return who, nil
	}
	eventually(t, func(ctx context.Context) error {
		who, err := answers(ctx, 10)
		if err == nil && len(who) != 2 {
			err = fmt.Errorf("answered by %v", who)
		}
		return err
	})
	pods, err := e.client.CoreV1().Pods(ns).List(bound(t), metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil {
		t.Fatal(err)
	}
	sick := pods.Items[0]
	resp, err := e.http().Get("http://" + sick.Status.PodIP + ":8080/sick")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	eventually(t, func(ctx context.Context) error {
		slices, err := e.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=web"})
		if err != nil {
			return err
		}
		if len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 2 {
			return fmt.Errorf("slices %+v", slices.Items)
		}
		for _, ep := range slices.Items[0].Endpoints {
			if *ep.Conditions.Ready != (ep.TargetRef.Name != sick.Name) {
				return fmt.Errorf("endpoint %s: ready %v", ep.TargetRef.Name, *ep.Conditions.Ready)
			}
		}
		return nil
	})
	eventually(t, func(ctx context.Context) error {
		who, err := answers(ctx, 10)
		if err == nil && (len(who) != 1 || who[sick.Name]) {
			err = fmt.Errorf("answered by %v", who)
		}
		return err
	})
	// A deleted pod leaves the service at once.
	e.kubectl(t, "-n", ns, "scale", "deployment/web", "--replicas=0")
	eventually(t, func(ctx context.Context) error {
		if _, err := e.page(ctx, address); err == nil {
			return errors.New("somebody answers still")
		}
		return nil
	})
}

// TestHooks: postStart runs before a container counts as started, preStop
// before it is asked to end; a failing postStart kills the container.
func TestHooks(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	dir := t.TempDir()
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: hooks}
spec:
  terminationGracePeriodSeconds: 10
  volumes: [{name: out, hostPath: {path: `+dir+`, type: Directory}}]
  containers:
  - name: c
    image: `+box+`
    args: [serve]
    volumeMounts: [{name: out, mountPath: /out}]
    lifecycle:
      postStart: {exec: {command: [/box, write, /out/diary, post start]}}
      preStop: {httpGet: {path: "/log?q=pre-stop", port: 8080}}
---
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: `+box+`, lifecycle: {postStart: {exec: {command: [/box, exit, "9"]}}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: sleepy}
spec:
  containers: [{name: c, image: `+box+`, lifecycle: {preStop: {sleep: {seconds: 1}}}}]
`)
	e.awaitPod(t, ns, "hooks", isReady)
	e.awaitPod(t, ns, "sleepy", isReady)
	if out := e.kubectl(t, "-n", ns, "exec", "hooks", "--", "/box", "cat", "/out/diary"); out != "post start\n" {
		t.Errorf("postStart wrote %q", out)
	}
	follow := make(chan string, 1)
	go func() {
		data, err := e.client.CoreV1().Pods(ns).GetLogs("hooks", &corev1.PodLogOptions{Follow: true}).DoRaw(t.Context())
		follow <- fmt.Sprint(string(data), err)
	}()
	// The follower has to be there before the container goes.
	eventually(t, func(ctx context.Context) error {
		if !strings.Contains(e.logs(t, ns, "hooks", "c"), "serving") {
			return errors.New("not serving yet")
		}
		return nil
	})
	e.kubectl(t, "-n", ns, "delete", "pod", "hooks", "sleepy")
	log := <-follow
	if i, j := strings.Index(log, "pre-stop"), strings.Index(log, "stopped"); i < 0 || j < i {
		t.Errorf("want pre-stop, then stopped: %q", log)
	}
	eventually(t, func(ctx context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		if !strings.Contains(out, "FailedPostStartHook") {
			return errors.New(out)
		}
		return nil
	})
}
