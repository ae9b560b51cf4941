package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// pair starts two kernels with a real node each, on one etcd, in networks that a cable
// joins.
func pair(t *testing.T, name string, o cluster.Options) (*cluster.Pair, [2]*env) {
	t.Helper()
	needContainers(t)
	binary(t, "pintle")
	p, err := cluster.NewPair(t.Context())
	if errors.Is(err, cluster.ErrNoEtcd) {
		skip(t, cluster.ErrNoEtcd.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	var both [2]*env
	for i := range both {
		registry, err := serveImages(p.Networks[i])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := registry.Close(); err != nil {
				t.Error(err)
			}
		})
		o := p.Options(i, o)
		o.Name = fmt.Sprintf("%s%d", name, i+1)
		if both[i], err = launch(o); err != nil {
			t.Fatal(err)
		}
		// The second one ends first, while the other still answers.
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of %s ends with:\n%s", o.Name, both[i].Log(40))
			}
			if err := both[i].Stop(syscall.SIGTERM); err != nil {
				t.Error(err)
			}
		})
	}
	return p, both
}

// TestTwoNodes: two machines with a kernel and a node each are one cluster, whose pods
// reach each other wherever they run.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	p, both := pair(t, "pair", cluster.Options{Config: "configs/standalone.yaml"})
	e := both[0]
	ns := e.namespace(t)
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 2 {
			return fmt.Errorf("%d nodes: %w", len(nodes.Items), err)
		}
		for _, n := range nodes.Items {
			if len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	var manifests strings.Builder
	for i := range both {
		fmt.Fprintf(&manifests, `
apiVersion: v1
kind: Pod
metadata: {name: web-%d, labels: {app: web}}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  containers: [{name: c, image: %s, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]
---`, i, p.NodeName(i), box)
	}
	manifests.WriteString(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: local}
spec: {type: NodePort, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 8080}]}
`)
	e.apply(t, ns, manifests.String())
	var web [2]*corev1.Pod
	for i := range both {
		web[i] = e.awaitPod(t, ns, fmt.Sprintf("web-%d", i), isReady)
		if node := web[i].Spec.NodeName; node != p.NodeName(i) {
			t.Errorf("pod %s is on node %s", web[i].Name, node)
		}
	}
	services := map[string]int32{}
	list, err := e.client.CoreV1().Services(ns).List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		services[s.Name] = s.Spec.Ports[0].NodePort
	}
	// get is the page at an address for a pod, with what asked: exec goes by either kernel.
	get := func(by *env, from int, address string) (host, source string, err error) {
		r := by.try(t, "-n", ns, "exec", web[from].Name, "--", "/box", "get", "http://"+address+"/")
		page, ok := strings.CutPrefix(r.stdout, "200\n")
		if r.err != nil || !ok {
			return "", "", fmt.Errorf("%s from %s by %s: %w: %s%s", address, web[from].Name, by.Name, r.err, r.stdout, r.stderr)
		}
		host, source, _ = strings.Cut(strings.TrimSpace(page), " ")
		source, _, err = net.SplitHostPort(source)
		return host, source, err
	}
	for from := range both {
		for to := range both {
			if from == to {
				continue
			}
			eventually(t, func(context.Context) error {
				host, source, err := get(both[to], from, web[to].Status.PodIP+":8080")
				if err == nil && (host != web[to].Name || source != web[from].Status.PodIP) {
					err = fmt.Errorf("%s at the address of %s saw %s; want the address of %s, %s", host, web[to].Name, source, web[from].Name, web[from].Status.PodIP)
				}
				return err
			})
		}
		// Every way to the service leads to both pods, from either node.
		for _, address := range []string{"web:8080", fmt.Sprintf("%s:%d", cluster.NodeIP, services["web"]), fmt.Sprintf("%s:%d", cluster.NeighbourIP, services["web"])} {
			seen := map[string]bool{}
			eventually(t, func(context.Context) error {
				host, _, err := get(e, from, address)
				if seen[host] = true; err == nil && !(seen[web[0].Name] && seen[web[1].Name]) {
					err = fmt.Errorf("%s from %s leads to %v only", address, web[from].Name, seen)
				}
				return err
			})
		}
		for to, ip := range []string{cluster.NodeIP, cluster.NeighbourIP} {
			eventually(t, func(context.Context) error {
				host, _, err := get(e, from, fmt.Sprintf("%s:%d", ip, services["local"]))
				if err == nil && from != to && host != web[to].Name {
					err = fmt.Errorf("the local node port of %s from %s leads to %s", p.NodeName(to), web[from].Name, host)
				}
				return err
			})
		}
	}
	// Either kernel has the logs of both.
	for _, by := range both {
		for i := range web {
			both[i].kubectl(t, "-n", ns, "exec", web[i].Name, "--", "/box", "get", "http://127.0.0.1:8080/log?q=known")
			contains(t, by.kubectl(t, "-n", ns, "logs", web[i].Name), "known")
		}
	}
	var wg sync.WaitGroup
	for _, pod := range web {
		wg.Go(func() { e.kubectl(t, "-n", ns, "delete", "pod", pod.Name, "--timeout=110s") })
	}
	wg.Wait()
}
