package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestDNS: pods find services, each other and the world by name, with the proxy of
// iptables.
func TestDNS(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	e.names(t, e.namespace(t))
}

// TestDNSKilled: the same by the userspace proxy; a DNS that is killed answers again,
// and one whose service is deleted has it again.
func TestDNSKilled(t *testing.T) {
	t.Parallel()
	needContainers(t)
	e := private(t, cluster.Options{Name: "dns", Config: "configs/standalone.yaml", Set: []string{"node.proxies=[userspace]"}})
	ns := e.namespace(t)
	e.names(t, ns)
	before, _, err := e.pluginPid(bound(t), t, "coredns")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		pid, state, err := e.pluginPid(ctx, t, "coredns")
		if err == nil && (pid == before || state != "Ready") {
			err = fmt.Errorf("plugin coredns is %s with pid %d, which was killed: %d", state, pid, before)
		}
		return err
	})
	e.finds(t, ns, "client", "web")
	if err := e.client.CoreV1().Services(metav1.NamespaceSystem).Delete(bound(t), "kube-dns", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		_, err := e.client.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
		return err
	})
	e.finds(t, ns, "client", "web."+ns+".svc.cluster.local")
	// What the plugin may not is refused to it as to anybody.
	r := e.try(t, "auth", "can-i", "list", "pods", "--as=system:pintle:plugin:coredns")
	if strings.TrimSpace(r.stdout) != "no" {
		t.Errorf("the DNS may list pods: %+v", r)
	}
}

// finds waits until a pod has the page of pod web-0, which is zero by its hostname, by a name.
func (e *env) finds(t *testing.T, ns, pod, name string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		r := e.try(t, "-n", ns, "exec", pod, "--", "/box", "get", "http://"+name+":8080/")
		if r.err == nil && !strings.HasPrefix(r.stdout, "200\nzero ") {
			r.err = fmt.Errorf("answered %q", r.stdout)
		}
		if r.err != nil {
			return fmt.Errorf("%s from %s: %w: %s", name, pod, r.err, r.stderr)
		}
		return nil
	})
}

func (e *env) names(t *testing.T, ns string) {
	t.Helper()
	eventually(t, func(context.Context) error { // said when the node is there, which may be after ready
		if screen := strings.Join(e.Screen(), "\n"); !strings.Contains(screen, "coredns at 10.96.0.10") {
			return fmt.Errorf("the DNS is not among what is said:\n%s", screen)
		}
		return nil
	})
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: web-0, labels: {app: web}}
spec: {hostname: zero, subdomain: heads, containers: [{name: c, image: `+box+`, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: heads}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: web.`+ns+`.svc.cluster.local}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: c, image: `+box+`}]}
---
apiVersion: v1
kind: Pod
metadata: {name: own}
spec: {dnsPolicy: None, dnsConfig: {nameservers: [10.96.0.10], searches: [`+ns+`.svc.cluster.local]}, containers: [{name: c, image: `+box+`}]}
`)
	web := e.awaitPod(t, ns, "web-0", isReady)
	e.awaitPod(t, ns, "client", isReady)
	e.awaitPod(t, ns, "own", isReady)
	for _, name := range []string{
		"web", "web." + ns, "web." + ns + ".svc.cluster.local", "web." + ns + ".svc.cluster.local.", "heads", "zero.heads",
		"alias", strings.ReplaceAll(web.Status.PodIP, ".", "-") + "." + ns + ".pod",
	} {
		e.finds(t, ns, "client", name)
	}
	e.finds(t, ns, "own", "web")
	r := e.try(t, "-n", ns, "exec", "client", "--", "/box", "get", "http://nobody."+ns+".svc.cluster.local.:8080/")
	if r.err == nil || !strings.Contains(r.stderr, "no such host") {
		t.Errorf("a name that is nobody's: %+v", r)
	}
	events, err := e.client.CoreV1().Events(ns).List(bound(t), metav1.ListOptions{FieldSelector: "reason=MissingClusterDNS"})
	if err != nil || len(events.Items) > 0 {
		t.Errorf("events of a missing DNS: %v, %v", events, err)
	}
	// The door is the DNS's alone: neither the node's own ports nor others are behind it.
	for _, port := range []string{"22", "6443", "10250", "10053"} {
		r := e.try(t, "-n", ns, "exec", "client", "--", "/box", "get", "http://10.96.0.10:"+port+"/")
		if r.err == nil {
			t.Errorf("port %s of the DNS's address answers: %+v", port, r)
		}
	}
	if _, err := e.client.CoreV1().Services(metav1.NamespaceSystem).Get(bound(t), "kube-dns", metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("there is no service kube-dns")
	}
}
