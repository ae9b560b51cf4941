package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// webPods is a Deployment of two pods web, which serve pages at port 8080. BOX is their image.
const webPods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: BOX, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
`

const balanced = webPods + `---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: c, image: BOX}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: without-node-port}
spec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 81, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: chosen}
spec: {type: LoadBalancer, loadBalancerIP: 10.97.0.77, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: closed}
spec: {type: LoadBalancer, loadBalancerSourceRanges: [203.0.113.0/24], selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: metal}
spec: {type: LoadBalancer, loadBalancerClass: example.com/metal, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`

// balancer waits for the address of a service of type LoadBalancer.
func (e *env) balancer(t *testing.T, namespace, name string) string {
	t.Helper()
	var ip string
	eventually(t, func(ctx context.Context) error {
		s, err := e.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			return fmt.Errorf("service %s has %v", name, s.Status.LoadBalancer.Ingress)
		}
		ip = s.Status.LoadBalancer.Ingress[0].IP
		return nil
	})
	return ip
}

// answersAt waits until an address answers with a page of one of the pods web.
func (e *env) answersAt(t *testing.T, address string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		page, err := e.page(ctx, address)
		if err == nil && !strings.HasPrefix(page, "web-") {
			err = fmt.Errorf("%s: %s", address, page)
		}
		return err
	})
}

// silent waits until an address does not answer.
func (e *env) silent(t *testing.T, address string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if page, err := e.page(ctx, address); err == nil {
			return fmt.Errorf("%s answers: %s", address, page)
		}
		return nil
	})
}

// failed waits for the event that says why a service has no address.
func (e *env) failed(t *testing.T, namespace, name, words string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		events, err := e.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err != nil {
			return err
		}
		var said []string
		for _, event := range events.Items {
			if said = append(said, event.Reason+": "+event.Message); strings.Contains(event.Message, words) && event.Type == corev1.EventTypeWarning {
				return nil
			}
		}
		return fmt.Errorf("no event of %s says %q: %q", name, words, said)
	})
}

// TestLoadBalancers: services of type LoadBalancer have addresses that answer, on this
// machine, from pods and from other machines; they keep them when the kernel is killed,
// nobody takes another's, and what is deleted is free.
func TestLoadBalancers(t *testing.T) {
	t.Parallel()
	start := crashable(t, cluster.Options{Name: "balancers", Config: "configs/standalone.yaml", Set: []string{"node.onStop=stop"}})
	e := start()
	contains(t, strings.Join(e.Screen(), "\n"), "1 cloud provider")
	const ns = "shop"
	e.kubectl(t, "create", "namespace", ns)
	e.awaitAccount(t, ns)
	in, _ := e.within(t, ns)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.try(t, "get", "services,pods,events,plugins", "-A", "-o", "wide").stdout)
		}
	})
	e.apply(t, ns, strings.ReplaceAll(balanced, "BOX", box))
	in("rollout", "status", "deployment/web", "--timeout=110s")
	e.awaitPod(t, ns, "client", isReady)
	pool := netip.MustParsePrefix("10.97.0.0/24")
	had := map[string]string{}
	for _, name := range []string{"web", "without-node-port", "chosen", "closed"} {
		ip := e.balancer(t, ns, name)
		for other, taken := range had {
			if taken == ip {
				t.Errorf("%s and %s have %s", name, other, ip)
			}
		}
		if a, err := netip.ParseAddr(ip); err != nil || !pool.Contains(a) {
			t.Errorf("%s has %s", name, ip)
		}
		had[name] = ip
	}
	if had["chosen"] != "10.97.0.77" {
		t.Errorf("chosen has %s", had["chosen"])
	}
	contains(t, in("get", "service", "web"), "EXTERNAL-IP", had["web"])
	fromPod := func(address string) error {
		r := e.try(t, "-n", ns, "exec", "client", "--", "/box", "get", "http://"+address+"/")
		if r.err != nil || !strings.Contains(r.stdout, "web-") {
			return fmt.Errorf("%s: %w %s%s", address, r.err, r.stdout, r.stderr)
		}
		return nil
	}
	reached := func(t *testing.T) {
		t.Helper()
		for _, address := range []string{had["web"] + ":80", had["without-node-port"] + ":81", had["chosen"] + ":80"} {
			e.answersAt(t, address)
			eventually(t, func(context.Context) error { return fromPod(address) })
		}
		e.silent(t, had["closed"]+":80") // by its source ranges
	}
	reached(t)
	if out := in("get", "service", "without-node-port", "-o", "jsonpath={.spec.ports[0].nodePort}"); out != "" {
		t.Errorf("it has the node port %s", out)
	}
	// Another controller's: it has no address, and nothing of ours on it.
	if out := in("get", "service", "metal", "-o", "jsonpath={.status.loadBalancer}{.metadata.finalizers}"); out != "{}" {
		t.Errorf("a service of another class has %s", out)
	}

	t.Run("attacks", func(t *testing.T) {
		e.attackBalancers(t, ns, had["web"])
		reached(t)
	})

	t.Run("killed", func(t *testing.T) {
		e.Kill()
		e = start()
		in("wait", "--for=condition=Ready", "pods", "-l", "app=web", "--timeout=110s")
		e.awaitPod(t, ns, "client", isReady)
		for name, ip := range had {
			if now := e.balancer(t, ns, name); now != ip {
				t.Errorf("%s has %s, had %s", name, now, ip)
			}
		}
		reached(t)
	})

	t.Run("another type", func(t *testing.T) {
		in("patch", "service", "chosen", "--type=merge", "-p", `{"spec":{"type":"ClusterIP","loadBalancerIP":null}}`)
		eventually(t, func(context.Context) error {
			if out := in("get", "service", "chosen", "-o", "jsonpath={.status.loadBalancer}{.metadata.finalizers}"); out != "{}" {
				return errors.New(out)
			}
			return nil
		})
		e.silent(t, "10.97.0.77:80")
		e.apply(t, ns, "{apiVersion: v1, kind: Service, metadata: {name: heir}, spec: {type: LoadBalancer, loadBalancerIP: 10.97.0.77, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
		e.answersAt(t, "10.97.0.77:80")
	})

	t.Run("deleted", func(t *testing.T) {
		in("delete", "service", "web", "--timeout=60s")
		e.silent(t, had["web"]+":80")
		e.apply(t, ns, "{apiVersion: v1, kind: Service, metadata: {name: next}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
		if ip := e.balancer(t, ns, "next"); ip != had["web"] {
			t.Errorf("next has %s, and %s is free", ip, had["web"])
		}
		e.answersAt(t, had["web"]+":80")
	})

	t.Run("full", func(t *testing.T) {
		in("delete", "service", "heir", "next", "without-node-port", "closed", "--timeout=60s")
		e.kubectl(t, "patch", "plugin", "local", "--type=merge", "-p", `{"spec":{"config":{"addresses":["10.97.1.1-10.97.1.2"]}}}`)
		more := func(name string) {
			t.Helper()
			e.apply(t, ns, "{apiVersion: v1, kind: Service, metadata: {name: "+name+"}, spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
		}
		for _, name := range []string{"one", "two"} {
			more(name)
			eventually(t, func(context.Context) error { // the first may have one of the range before
				if ip := e.balancer(t, ns, name); !strings.HasPrefix(ip, "10.97.1.") {
					return fmt.Errorf("%s has %s", name, ip)
				}
				return nil
			})
		}
		more("three")
		e.failed(t, ns, "three", "no address of 10.97.1.1-10.97.1.2 is free: delete a service of type LoadBalancer, or give the cloud provider local more addresses")
		// One goes, and the one that waits has its address.
		freed := e.balancer(t, ns, "two")
		in("delete", "service", "two", "--timeout=60s")
		if ip := e.balancer(t, ns, "three"); ip != freed {
			t.Errorf("three has %s, and %s is free", ip, freed)
		}
		e.answersAt(t, freed+":80")
	})

	t.Run("configuration", func(t *testing.T) {
		e.kubectl(t, "patch", "plugin", "local", "--type=merge", "-p", `{"spec":{"config":{"addresses":["127.0.0.0/8"]}}}`)
		eventually(t, func(context.Context) error {
			if out := e.kubectl(t, "get", "plugin", "local", "-o", "wide"); !strings.Contains(out, "spec not in force: ") || !strings.Contains(out, "addresses: 127.0.0.0/8: proxies serve no address of 127.0.0.0/8") {
				return errors.New(out)
			}
			return nil
		})
		e.answersAt(t, e.balancer(t, ns, "one")+":80")
	})
	// Last: the cable ends with the neighbour.
	second, err := cluster.NewNeighbour(e.Network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("other machines", func(t *testing.T) { e.fromNeighbour(t, second, ns, e.balancer(t, ns, "one")) })
	in("delete", "service", "--all", "--timeout=60s")
}

// fromNeighbour reaches a load balancer from another machine, by the ways that
// configs/docs/plugins.md names.
func (e *env) fromNeighbour(t *testing.T, second *cluster.Network, ns, ip string) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: second.Dial, DisableKeepAlives: true}}
	ask := func(address string) (string, error) {
		resp, err := client.Get("http://" + address + "/")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		return string(page), err
	}
	get := func(address string) {
		t.Helper()
		eventually(t, func(context.Context) error {
			page, err := ask(address)
			if err == nil && !strings.HasPrefix(page, "web-") {
				err = errors.New(page)
			}
			return err
		})
	}
	if page, err := ask(ip + ":80"); err == nil {
		t.Errorf("%s answers another machine that has no way to it: %s", ip, page)
	}
	if err := second.Do(func() error {
		eth, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Dst: &net.IPNet{IP: net.IPv4(10, 97, 0, 0), Mask: net.CIDRMask(16, 32)}, Gw: net.ParseIP(cluster.NodeIP)})
	}); err != nil {
		t.Fatal(err)
	}
	get(ip + ":80")

	// An address of the network itself, which the machine answers ARP for.
	const announced = "192.0.2.200"
	e.kubectl(t, "patch", "plugin", "local", "--type=merge", "-p", `{"spec":{"config":{"addresses":["10.97.1.1-10.97.1.2","`+announced+`/32"]}}}`)
	e.apply(t, ns, "{apiVersion: v1, kind: Service, metadata: {name: announced}, spec: {type: LoadBalancer, loadBalancerIP: "+announced+", selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}}")
	if got := e.balancer(t, ns, "announced"); got != announced {
		t.Fatalf("it has %s", got)
	}
	get(announced + ":80")
}

// attackBalancers is what a user of another namespace tries, who may edit it.
func (e *env) attackBalancers(t *testing.T, victim, address string) {
	const ns = "mallory"
	e.kubectl(t, "create", "namespace", ns)
	e.awaitAccount(t, ns)
	e.kubectl(t, "-n", ns, "create", "rolebinding", "edit", "--clusterrole=edit", "--serviceaccount="+ns+":default")
	as := "--as=system:serviceaccount:" + ns + ":default"
	_, refused := e.within(t, ns)
	clusterIP := strings.TrimSpace(e.kubectl(t, "-n", victim, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"))
	wants := map[string]struct{ ip, words string }{
		"thief":      {address, "another service has it"},
		"collector":  {clusterIP, "it is not in 10.97.0.0/24"},
		"apiserver":  {"10.96.0.1", "it is not in 10.97.0.0/24"},
		"nameserver": {"10.96.0.10", "it is not in 10.97.0.0/24"},
		"machine":    {cluster.NodeIP, "it is not in 10.97.0.0/24"},
		"loopback":   {"127.0.0.1", "it is not in 10.97.0.0/24"},
	}
	for name, c := range wants {
		file := writeFile(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: {type: LoadBalancer, loadBalancerIP: %s, ports: [{name: http, port: 80}, {name: api, port: 443}]}, status: {loadBalancer: {ingress: [{ip: %s}]}}}`, name, ns, c.ip, c.ip))
		eventually(t, func(context.Context) error { // the binding may be a moment late
			if r := e.try(t, as, "apply", "-f", file); r.err != nil {
				return errors.New(r.stderr)
			}
			return nil
		})
	}
	for name, c := range wants {
		e.failed(t, ns, name, "Error syncing load balancer: failed to ensure load balancer: spec.loadBalancerIP "+c.ip+": "+c.words)
		if out := e.kubectl(t, "-n", ns, "get", "service", name, "-o", "jsonpath={.status.loadBalancer}"); out != "{}" {
			t.Errorf("%s has %s", name, out)
		}
	}
	refused("Forbidden", "patch", "service", "thief", as, "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"`+address+`"}]}}}`)
	refused("Forbidden", "patch", "plugin", "local", as, "--type=merge", "-p", `{"spec":{"enabled":false}}`)
	for _, event := range strings.Split(e.kubectl(t, "-n", ns, "get", "events", "-o", "jsonpath={.items[*].message}"), "\n") {
		if strings.Contains(event, victim) {
			t.Errorf("an event of %s tells of %s: %s", ns, victim, event)
		}
	}
	// A status in a cloud provider's name, of a cluster IP: no proxy serves it.
	e.kubectl(t, "-n", ns, "patch", "service", "collector", "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"`+clusterIP+`"}]}}}`)
	e.failed(t, ns, "collector", "Service is not served on the load balancer's address "+clusterIP+", which is in the range of cluster IPs")
	e.answersAt(t, clusterIP+":80")
	e.kubectl(t, "delete", "namespace", ns, "--timeout=110s")
}
