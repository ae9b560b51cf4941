package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestServices: packets through cluster IPs and node ports, from the machine,
// from pods, and from a pod to itself, with affinity and without.
func TestServices(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	contains(t, strings.Join(e.Screen(), "\n"), "proxy     nftables")
	e.services(t, e.namespace(t))
}

// TestIPTablesProxy: the same with the rules of iptables.
func TestIPTablesProxy(t *testing.T) {
	t.Parallel()
	needContainers(t)
	e := private(t, cluster.Options{Name: "iptables", Config: "configs/standalone.yaml", Set: []string{"node.proxies=[iptables]"}})
	contains(t, strings.Join(e.Screen(), "\n"), "proxy     iptables")
	e.services(t, e.namespace(t))
}

// TestUserspaceProxy: the same with the proxy that needs no rule in the kernel.
func TestUserspaceProxy(t *testing.T) {
	t.Parallel()
	needContainers(t)
	e := private(t, cluster.Options{Name: "userspace", Config: "configs/standalone.yaml", Set: []string{"node.proxies=[userspace]"}})
	contains(t, strings.Join(e.Screen(), "\n"), "userspace")
	e.services(t, e.namespace(t))
}

func (e *env) services(t *testing.T, ns string) {
	t.Helper()
	e.apply(t, ns, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: `+box+`, args: [serve], ports: [{name: http, containerPort: 8080}], readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: sticky}
spec: {sessionAffinity: ClientIP, selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: c, image: `+box+`}]}
`)
	e.kubectl(t, "-n", ns, "rollout", "status", "deployment/web", "--timeout=110s")
	e.awaitPod(t, ns, "client", isReady)
	services := map[string]string{}
	list, err := e.client.CoreV1().Services(ns).List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var nodePort int32
	for _, s := range list.Items {
		services[s.Name] = s.Spec.ClusterIP + ":80"
		nodePort = max(nodePort, s.Spec.Ports[0].NodePort)
	}
	pods := strings.Fields(e.kubectl(t, "-n", ns, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
	fromMachine := func(address string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return e.page(ctx, address) }
	}
	fromPod := func(pod, address string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			r := e.try(t, "-n", ns, "exec", pod, "--", "/box", "get", "http://"+address+"/")
			return strings.TrimPrefix(r.stdout, "200\n"), r.err
		}
	}
	// Endpoints by hand, of a service without a selector, reach the pods too.
	ips := strings.Fields(e.kubectl(t, "-n", ns, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}"))
	e.apply(t, ns, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: byhand}
spec: {ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: byhand}
subsets: [{addresses: [{ip: %s}, {ip: %s}], ports: [{port: 8080}]}]
`, ips[0], ips[1]))
	byHand := e.kubectl(t, "-n", ns, "get", "service", "byhand", "-o", "jsonpath={.spec.clusterIP}") + ":80"
	ways := map[string]func(context.Context) (string, error){
		"machine to cluster IP":        fromMachine(services["web"]),
		"machine to node port":         fromMachine(fmt.Sprintf("%s:%d", cluster.NodeIP, nodePort)),
		"machine to node port at lo":   fromMachine(fmt.Sprintf("127.0.0.1:%d", nodePort)),
		"pod to cluster IP":            fromPod("client", services["web"]),
		"pod to node port":             fromPod("client", fmt.Sprintf("%s:%d", cluster.NodeIP, nodePort)),
		"machine to Endpoints by hand": fromMachine(byHand),
		"pod to Endpoints by hand":     fromPod("client", byHand),
		"pod to itself":                fromPod(pods[0], services["web"]),
	}
	for way, ask := range ways {
		var seen []string
		eventually(t, func(ctx context.Context) error {
			page, err := ask(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
			if name, _, _ := strings.Cut(page, " "); slices.Contains(pods, name) && !slices.Contains(seen, name) {
				seen = append(seen, name)
			}
			if len(seen) != 2 {
				return fmt.Errorf("%s: answered by %v only", way, seen)
			}
			return nil
		})
	}
	first, err := e.page(bound(t), services["sticky"])
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(first, " ")
	for range 10 {
		page, err := e.page(bound(t), services["sticky"])
		if err != nil || !strings.HasPrefix(page, name+" ") {
			t.Errorf("with affinity %s answered first, then %q %v", name, page, err)
		}
	}
	if _, err := e.page(bound(t), services["nobody"]); err == nil {
		t.Error("a service without endpoints answered")
	}
	if r := e.try(t, "-n", ns, "exec", "client", "--", "/box", "get", "http://"+services["nobody"]+"/"); r.err == nil || !refused(r.stderr) {
		t.Errorf("a service without endpoints is not refused to a pod: %+v", r)
	}
	e.kubectl(t, "-n", ns, "delete", "service", "web")
	eventually(t, func(ctx context.Context) error {
		if _, err := e.page(ctx, services["web"]); err == nil {
			return fmt.Errorf("a deleted service answers still")
		}
		return nil
	})
}

// refused tells a connection that was turned down from one that nobody answered.
func refused(text string) bool {
	return strings.Contains(text, "connection refused") || strings.Contains(text, "EOF") || strings.Contains(text, "reset by peer") || strings.Contains(text, "server closed idle connection")
}
