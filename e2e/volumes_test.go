package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVolumes: every kind of volume, their modes, items and optional sources,
// and updates that reach mounted files.
func TestVolumes(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host"), []byte("from the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.apply(t, ns, `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, size: large}
binaryData: {raw: AAEC}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {password: open sesame}
---
apiVersion: v1
kind: Pod
metadata: {name: volumes, labels: {app: volumes}, annotations: {note: first}}
spec:
  volumes:
  - {name: scratch, emptyDir: {}}
  - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
  - {name: host, hostPath: {path: `+dir+`, type: Directory}}
  - {name: settings, configMap: {name: settings}}
  - {name: some, configMap: {name: settings, defaultMode: 0400, items: [{key: size, path: a/b/size, mode: 0444}]}}
  - {name: absent, configMap: {name: absent, optional: true}}
  - {name: keys, secret: {secretName: keys, defaultMode: 0400}}
  - name: pod
    downwardAPI:
      items:
      - {path: labels, fieldRef: {fieldPath: metadata.labels}}
      - {path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}
      - {path: cpu, resourceFieldRef: {containerName: a, resource: requests.cpu, divisor: 1m}}
  - name: mixed
    projected:
      sources:
      - {configMap: {name: settings, items: [{key: colour, path: colour}]}}
      - {secret: {name: keys, items: [{key: password, path: password}]}}
      - {serviceAccountToken: {path: token, audience: nobody, expirationSeconds: 600}}
  containers:
  - name: a
    image: `+box+`
    resources: {requests: {cpu: 20m}}
    volumeMounts:
    - {name: scratch, mountPath: /scratch}
    - {name: memory, mountPath: /memory}
    - {name: host, mountPath: /host, readOnly: true}
    - {name: settings, mountPath: /settings}
    - {name: settings, mountPath: /one/colour, subPath: colour}
    - {name: some, mountPath: /some}
    - {name: absent, mountPath: /absent}
    - {name: keys, mountPath: /keys}
    - {name: pod, mountPath: /pod}
    - {name: mixed, mountPath: /mixed}
  - {name: b, image: `+box+`, volumeMounts: [{name: scratch, mountPath: /scratch, subPath: below}]}
`)
	e.awaitPod(t, ns, "volumes", isReady)
	in := func(t testing.TB, container string, command ...string) result {
		t.Helper()
		return e.try(t, append([]string{"-n", ns, "exec", "volumes", "-c", container, "--", "/box"}, command...)...)
	}
	for _, c := range []struct{ file, want string }{
		{"/settings/colour", "blue"}, {"/settings/raw", "\x00\x01\x02"}, {"/one/colour", "blue"},
		{"/some/a/b/size", "large"}, {"/keys/password", "open sesame"}, {"/host/host", "from the host\n"},
		{"/pod/labels", `app="volumes"`}, {"/pod/note", "first"}, {"/pod/cpu", "20"},
		{"/mixed/colour", "blue"}, {"/mixed/password", "open sesame"},
		{"/var/run/secrets/kubernetes.io/serviceaccount/namespace", ns},
	} {
		if r := in(t, "a", "cat", c.file); r.err != nil || r.stdout != c.want {
			t.Errorf("%s: %q %v %s, want %q", c.file, r.stdout, r.err, r.stderr, c.want)
		}
	}
	for _, c := range []struct{ dir, want string }{
		{"/keys/..data/", "-r-------- 0 0 /keys/..data/password"}, {"/some/..data/", "-r--r--r-- 0 0 /some/..data/a/b/size"},
		{"/settings/..data/", "-rw-r--r-- 0 0 /settings/..data/colour"}, {"/scratch", "drwxrwxrwx 0 0 /scratch"},
	} {
		if r := in(t, "a", "list", c.dir); !strings.Contains(r.stdout, c.want) {
			t.Errorf("%s: want %s in:\n%s%s", c.dir, c.want, r.stdout, r.stderr)
		}
	}
	if r := in(t, "a", "write", "/host/new", "no"); r.err == nil || !strings.Contains(r.stderr, "read-only file system") {
		t.Errorf("a read-only mount took a file: %+v", r)
	}
	in(t, "b", "write", "/scratch/note", "from b")
	if r := in(t, "a", "cat", "/scratch/below/note"); r.stdout != "from b\n" {
		t.Errorf("containers do not share an emptyDir: %+v", r)
	}
	// Changes reach the files; a subPath stays as it was.
	e.kubectl(t, "-n", ns, "patch", "configmap", "settings", "-p", `{"data":{"colour":"green","size":null}}`)
	e.kubectl(t, "-n", ns, "patch", "secret", "keys", "-p", `{"stringData":{"password":"shut"}}`)
	e.kubectl(t, "-n", ns, "annotate", "--overwrite", "pod", "volumes", "note=second")
	for file, want := range map[string]string{"/settings/colour": "green", "/keys/password": "shut", "/pod/note": "second", "/mixed/colour": "green", "/mixed/password": "shut"} {
		eventually(t, func(context.Context) error {
			if r := in(t, "a", "cat", file); r.stdout != want {
				return fmt.Errorf("%s is %q still, want %q", file, r.stdout, want)
			}
			return nil
		})
	}
	if r := in(t, "a", "exists", "/settings/size"); r.err == nil {
		t.Error("a removed key is there still")
	}
	if r := in(t, "a", "cat", "/one/colour"); r.stdout != "blue" {
		t.Errorf("a subPath followed its source: %q", r.stdout)
	}
}

// TestMissingVolume: a pod whose source is missing waits, says so, and starts
// when the source comes.
func TestMissingVolume(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: waits}
spec:
  volumes: [{name: late, secret: {secretName: late}}]
  containers: [{name: c, image: `+box+`, volumeMounts: [{name: late, mountPath: /late}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: lacks}
spec: {containers: [{name: c, image: `+box+`, env: [{name: X, valueFrom: {configMapKeyRef: {name: nothing, key: x}}}]}]}
`)
	eventually(t, func(context.Context) error {
		out := e.kubectl(t, "-n", ns, "get", "events")
		for _, w := range []string{"FailedMount", `MountVolume.SetUp failed for volume "late" : secret "late" not found`, `Error: configmap "nothing" not found`} {
			if !strings.Contains(out, w) {
				return fmt.Errorf("%q is not among the events:\n%s", w, out)
			}
		}
		return nil
	})
	contains(t, e.kubectl(t, "-n", ns, "get", "pods"), "ContainerCreating", "CreateContainerConfigError")
	e.kubectl(t, "-n", ns, "create", "secret", "generic", "late", "--from-literal=a=b")
	e.kubectl(t, "-n", ns, "create", "configmap", "nothing", "--from-literal=x=y")
	e.awaitPod(t, ns, "waits", isReady)
	e.awaitPod(t, ns, "lacks", isReady)
}

// TestEnvironment: variables from everywhere, references among them, services
// of the namespace.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.apply(t, ns, `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {COLOUR: blue, not-a-c-name: odd}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {PASSWORD: sesame}
---
apiVersion: v1
kind: Service
metadata: {name: front-door}
spec: {ports: [{name: http, port: 80}, {name: dns, port: 53, protocol: UDP}]}
`)
	svc, err := e.client.CoreV1().Services(ns).Get(bound(t), "front-door", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := `
apiVersion: v1
kind: Pod
metadata: {name: env, labels: {tier: one}}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: ` + box + `
    args: [env]
    resources: {requests: {cpu: 250m, memory: 8Mi}, limits: {memory: 64Mi}}
    envFrom:
    - {prefix: CM_, configMapRef: {name: settings}}
    - {secretRef: {name: keys}}
    - {configMapRef: {name: absent, optional: true}}
    env:
    - {name: PLAIN, value: text}
    - {name: COMPOSED, value: "$(PLAIN) and $(PASSWORD), not $$(PLAIN) or $(UNKNOWN)"}
    - {name: FROM_IMAGE, value: overridden}
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: TIER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['tier']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: ONE, valueFrom: {configMapKeyRef: {name: settings, key: COLOUR}}}
`
	var out string
	// The node learns of a service by a watch; a pod that was faster lacks it.
	eventually(t, func(context.Context) error {
		e.apply(t, ns, pod)
		e.awaitPod(t, ns, "env", hasPhase(corev1.PodSucceeded))
		out = e.logs(t, ns, "env", "c")
		if !strings.Contains(out, "FRONT_DOOR_SERVICE_HOST=") {
			e.kubectl(t, "-n", ns, "delete", "pod", "env")
			return fmt.Errorf("no variables of the service:\n%s", out)
		}
		return nil
	})
	status := e.awaitPod(t, ns, "env", hasPhase(corev1.PodSucceeded))
	for _, want := range []string{
		"CM_COLOUR=blue", "CM_not-a-c-name=odd", "PASSWORD=sesame", "PLAIN=text", "COMPOSED=text and sesame, not $(PLAIN) or $(UNKNOWN)",
		"FROM_IMAGE=overridden", "POD=env", "TIER=one", "NODE=" + status.Spec.NodeName, "HOST_IP=" + status.Status.HostIP, "POD_IP=" + status.Status.PodIP,
		"CPU=250", "MEMORY=64", "ONE=blue", "HOSTNAME=env",
		"FRONT_DOOR_SERVICE_HOST=" + svc.Spec.ClusterIP, "FRONT_DOOR_SERVICE_PORT=80", "FRONT_DOOR_SERVICE_PORT_DNS=53",
		"FRONT_DOOR_PORT_53_UDP_ADDR=" + svc.Spec.ClusterIP, "FRONT_DOOR_PORT=tcp://" + svc.Spec.ClusterIP + ":80",
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443",
	} {
		if !strings.Contains("\n"+out, "\n"+want+"\n") {
			t.Errorf("%q is not in the environment:\n%s", want, out)
		}
	}
}

// TestTokenInPod: the projected token of a pod works against the API from
// inside the pod, through the cluster IP and with the mounted CA, and may do
// what RBAC says and no more.
func TestTokenInPod(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.namespace(t)
	e.kubectl(t, "-n", ns, "create", "serviceaccount", "reader")
	e.kubectl(t, "-n", ns, "create", "role", "reader", "--verb=get,list", "--resource=configmaps")
	e.kubectl(t, "-n", ns, "create", "rolebinding", "reader", "--role=reader", "--serviceaccount="+ns+":reader")
	e.kubectl(t, "-n", ns, "create", "configmap", "words", "--from-literal=hello=world")
	const files = "/var/run/secrets/kubernetes.io/serviceaccount/"
	get := func(path string) string {
		return `[get, "https://${KUBERNETES_SERVICE_HOST}:${KUBERNETES_SERVICE_PORT}` + path + `", ` + files + `token, ` + files + `ca.crt]`
	}
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: reads}
spec:
  serviceAccountName: reader
  restartPolicy: OnFailure
  containers:
  - {name: may, image: `+box+`, args: `+get("/api/v1/namespaces/"+ns+"/configmaps/words")+`}
  - {name: may-not, image: `+box+`, args: `+get("/api/v1/namespaces/"+ns+"/secrets")+`}
  - {name: issuer, image: `+box+`, args: `+get("/.well-known/openid-configuration")+`}
---
apiVersion: v1
kind: Pod
metadata: {name: without}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  containers: [{name: c, image: `+box+`, args: [exists, `+files+`token]}]
`)
	e.awaitPod(t, ns, "reads", hasPhase(corev1.PodSucceeded))
	contains(t, e.logs(t, ns, "reads", "may"), "200\n", `"hello":"world"`)
	contains(t, e.logs(t, ns, "reads", "may-not"), "403\n", `secrets is forbidden: User \"system:serviceaccount:`+ns+`:reader\" cannot list resource \"secrets\" in API group \"\" in the namespace \"`+ns+`\"`)
	contains(t, e.logs(t, ns, "reads", "issuer"), "200\n", "jwks_uri")
	e.awaitPod(t, ns, "without", hasPhase(corev1.PodFailed))
	// A token by hand, and what it says of itself.
	token := strings.TrimSpace(e.kubectl(t, "-n", ns, "create", "token", "reader", "--duration=10m"))
	var who struct {
		Status struct {
			UserInfo struct {
				Username string
				Groups   []string
			}
		}
	}
	// The administrator's certificate would win: a kubeconfig without it.
	out := e.kubectl(t, "--kubeconfig", tokenKubeconfig(t, e, token), "auth", "whoami", "-o", "json")
	if err := json.Unmarshal([]byte(out), &who); err != nil {
		t.Fatal(err)
	}
	if who.Status.UserInfo.Username != "system:serviceaccount:"+ns+":reader" {
		t.Errorf("the token is of %+v", who.Status.UserInfo)
	}
	if r := e.try(t, "--kubeconfig", tokenKubeconfig(t, e, token), "-n", ns, "auth", "can-i", "list", "secrets"); r.err == nil || r.stdout != "no\n" {
		t.Errorf("can-i: %+v", r)
	}
	if r := e.try(t, "--kubeconfig", tokenKubeconfig(t, e, token+"x"), "get", "pods"); r.err == nil || !strings.Contains(r.stderr, "You must be logged in to the server") {
		t.Errorf("a forged token: %+v", r)
	}
}

// tokenKubeconfig writes a kubeconfig that knows the cluster and one token.
func tokenKubeconfig(t testing.TB, e *env, token string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	ca := filepath.Join(e.Data, "pki", "ca.crt")
	for _, args := range [][]string{
		{"set-cluster", "c", "--server=" + e.cfg.Host, "--certificate-authority=" + ca},
		{"set-credentials", "u", "--token=" + token},
		{"set-context", "x", "--cluster=c", "--user=u"},
		{"use-context", "x"},
	} {
		e.kubectl(t, append([]string{"--kubeconfig", file, "config"}, args...)...)
	}
	return file
}
