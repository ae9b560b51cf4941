package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// TestStrangers: who shows nothing learns that the cluster lives, and no more.
func TestStrangers(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{
		DialContext: func(ctx context.Context, n, a string) (net.Conn, error) { return e.Network.Dial(ctx, n, a) },
		// Whom a stranger speaks to is not what is asked here.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
	defer client.CloseIdleConnections()
	var agent string
	eventually(t, func(ctx context.Context) error {
		nodes, err := e.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Status.DaemonEndpoints.KubeletEndpoint.Port == 0 {
			return fmt.Errorf("no node serves yet: %v", err)
		}
		agent = "https://" + net.JoinHostPort(cluster.NodeIP, strconv.Itoa(int(nodes.Items[0].Status.DaemonEndpoints.KubeletEndpoint.Port)))
		return nil
	})
	for base, paths := range map[string]map[string]int{
		e.cfg.Host: {
			"/livez": 200, "/readyz": 200, "/version": 200,
			"/": 403, "/api": 403, "/apis": 403, "/openapi/v2": 403, "/metrics": 403, "/debug/pprof/": 403, "/kernel/store/stats": 403,
			"/openid/v1/jwks": 403, "/api/v1/secrets": 403, "/apis/../api/v1/secrets": 403, "/api/v1/nodes/pintle/proxy/pods": 403,
		},
		agent: {
			"/healthz": 401, "/pods": 401, "/metrics": 401, "/stats/summary": 401, "/exec/a/b/c": 401, "/containerLogs/a/b/c": 401, "/logs/": 401, "/stats/../pods": 401,
		},
	} {
		for path, want := range paths {
			var res *http.Response
			eventually(t, func(context.Context) error { // the node may still be starting
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
				if err == nil {
					res, err = client.Do(req)
				}
				return err
			})
			body, _ := io.ReadAll(io.LimitReader(res.Body, 200))
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s%s: %d %s, want %d", base, path, res.StatusCode, body, want)
			}
		}
	}
}

// TestNodeCredential: a stolen credential of a node gives what the node's own
// pods have, and nothing else.
func TestNodeCredential(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	certs, err := filepath.Glob(filepath.Join(e.Data, "pki", "node-*-client.crt"))
	if err != nil || len(certs) != 1 {
		t.Fatalf("certificates %v, %v", certs, err)
	}
	node := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(certs[0]), "node-"), "-client.crt")
	e.apply(t, ns, `
apiVersion: v1
kind: Secret
metadata: {name: used}
stringData: {k: v}
---
apiVersion: v1
kind: Secret
metadata: {name: unused}
stringData: {k: v}
---
apiVersion: v1
kind: Pod
metadata: {name: here}
spec:
  volumes: [{name: s, secret: {secretName: used}}]
  containers: [{name: c, image: `+box+`, args: [wait], volumeMounts: [{name: s, mountPath: /s}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere}
spec:
  nodeSelector: {no: where}
  containers: [{name: c, image: `+box+`, args: [wait]}]
`)
	here := e.awaitPod(t, ns, "here", isReady)
	bindTo := []string{"--bound-object-kind=Pod", "--bound-object-name=here", "--bound-object-uid=" + string(here.UID)}
	for _, tt := range []struct {
		args []string
		ok   bool
	}{
		{[]string{"get", "secret", "used"}, true},
		{[]string{"get", "secret", "unused"}, false},
		{[]string{"get", "secrets"}, false},
		{[]string{"get", "secrets", "-A"}, false},
		{[]string{"get", "configmaps", "-A"}, false},
		{[]string{"get", "pod", "here"}, true},
		{[]string{"get", "pod", "nowhere"}, false},
		{[]string{"get", "pods", "-A"}, false},
		{[]string{"get", "pods", "-A", "--field-selector=spec.nodeName=" + node}, true},
		{[]string{"get", "node", node}, true},
		{[]string{"get", "nodes"}, false},
		{[]string{"delete", "pod", "nowhere", "--wait=false"}, false},
		{append([]string{"create", "token", "default"}, bindTo...), true},
		{append([]string{"create", "token", "default", "--audience=bank"}, bindTo...), false},
		{[]string{"create", "token", "default"}, false},
		{[]string{"exec", "here", "--", "/box", "env"}, false},
		{[]string{"label", "node", node, "node-restriction.kubernetes.io/x=y"}, false},
		{[]string{"create", "configmap", "x"}, false},
	} {
		args := append([]string{
			"--kubeconfig=" + os.DevNull, "--server=" + e.cfg.Host, "--certificate-authority=" + filepath.Join(e.Data, "pki", "ca.crt"),
			"--client-certificate=" + certs[0], "--client-key=" + strings.TrimSuffix(certs[0], "crt") + "key", "-n", ns,
		}, tt.args...)
		r := e.try(t, args...)
		if (r.err == nil) != tt.ok || !tt.ok && !strings.Contains(r.stderr, "orbidden") {
			t.Errorf("%v: %v %s%s, allowed is %v", tt.args, r.err, r.stdout, r.stderr, tt.ok)
		}
	}
}

// TestPodSecurityByDefault: with the shipped configuration a pod that could take
// the machine over is refused, whoever asks, until its namespace is labelled; the
// author of a Deployment is warned; services take no external IPs.
func TestPodSecurityByDefault(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	path, err := kubectlPath()
	if err != nil {
		t.Fatal(err)
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"containers":[{"name":"c","image":"` + box + `"}],"volumes":[{"name":"h","hostPath":{"path":"/"}}],"hostPID":true}}`
	apply := func(ns, name string) string {
		r := e.run(t, strings.ReplaceAll(pod, "NAME", name), path, "create", "-n", ns, "-f", "-", "--dry-run=server")
		return r.stdout + r.stderr
	}
	contains(t, apply(ns, "thief"), `violates PodSecurity "baseline:latest": host namespaces (hostPID=true), hostPath volumes (volume "h")`)
	contains(t, apply("kube-system", "system"), "pod/system created")
	r := e.run(t, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"`+box+`"}]}}}}`,
		path, "create", "-n", ns, "-f", "-", "--dry-run=server")
	contains(t, r.stdout+r.stderr, "deployment.apps/d created", `Warning: would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`)
	r = e.run(t, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"grab"},"spec":{"ports":[{"port":443}],"externalIPs":["198.51.100.9"]}}`, path, "create", "-n", ns, "-f", "-")
	contains(t, r.stderr, "Use of external IPs is denied by admission control")
	e.kubectl(t, "label", "namespace", ns, "pod-security.kubernetes.io/enforce=privileged")
	contains(t, apply(ns, "trusted"), "pod/trusted created")
}

// TestHostilePods: what containers make of their volumes neither holds the
// agent, nor leads it to files of the host, nor is changed by it.
func TestHostilePods(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	pod := func(name, spec, mounts string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  terminationGracePeriodSeconds: 1\n  %s\n  containers: [{name: c, image: %s, args: [wait], volumeMounts: [%s]}]\n", name, spec, box, mounts)
	}
	host := "volumes: [{name: v, hostPath: {path: " + dir + "}}]"
	e.apply(t, ns, pod("pipe", host, "{name: v, mountPath: /v, subPath: pipe}")+
		pod("out", host, "{name: v, mountPath: /v, subPath: out}")+
		pod("users", "hostUsers: false", "")+
		pod("group", "securityContext: {fsGroup: 4242}\n  volumes: [{name: v, emptyDir: {}}]", "{name: v, mountPath: /v}"))
	e.awaitPod(t, ns, "pipe", isReady)
	group := e.awaitPod(t, ns, "group", isReady)
	refused := func(words string) func(*corev1.Pod) error {
		return func(p *corev1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, words) {
					return nil
				}
			}
			return fmt.Errorf("statuses %+v", p.Status.ContainerStatuses)
		}
	}
	e.awaitPod(t, ns, "out", refused("path escapes from parent"))
	e.awaitPod(t, ns, "users", func(p *corev1.Pod) error {
		if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "UserNamespacesNotSupported" {
			return nil
		}
		return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	})

	// As the container would, with a mode of its own.
	file := filepath.Join(e.Data, "node", "pods", string(group.UID), "volumes", "kubernetes.io~empty-dir", "v", "private")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.kubectl(t, "-n", ns, "set", "image", "pod/group", "c="+box+"@sha256:"+strings.Repeat("0", 64))
	eventually(t, func(ctx context.Context) error {
		p, err := e.client.CoreV1().Pods(ns).Get(ctx, "group", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return refused("")(p) // the agent has looked at the pod, volumes included
	})
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	e.kubectl(t, "-n", ns, "delete", "pod", "pipe", "out", "users", "group", "--timeout=110s")
}

// TestSecretFiles: keys, sockets and kubeconfigs are for the kernel's user.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	for _, dir := range []string{"", "pki", "store", "plugins", "node", "run"} {
		info, err := os.Stat(filepath.Join(e.Data, dir))
		if err != nil {
			if dir == "run" { // elsewhere, where the path is long
				continue
			}
			t.Fatal(err)
		}
		if dir != "" && info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v", info.Name(), info.Mode())
		}
	}
	seen := 0
	for _, dir := range []string{"pki", "run"} {
		err := filepath.WalkDir(filepath.Join(e.Data, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // something that ended meanwhile
			}
			info, err := d.Info()
			if err != nil {
				return nil //nolint:nilerr // something that ended meanwhile
			}
			key, socket := strings.HasSuffix(path, ".key"), info.Mode()&fs.ModeSocket != 0
			if key || socket {
				seen++
			}
			// Who may not write to a socket can not connect to it.
			if key && info.Mode().Perm()&0o077 != 0 || socket && info.Mode().Perm()&0o002 != 0 {
				t.Errorf("%s: %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"admin.kubeconfig", "super-admin.kubeconfig"} {
		if info, err := os.Stat(filepath.Join(e.Data, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if seen < 4 {
		t.Errorf("only %d keys and sockets", seen)
	}
}
