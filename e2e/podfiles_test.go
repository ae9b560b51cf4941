package e2e

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodFiles: with a real runtime: an image as a volume, variables from a file
// of an init container, the seccomp profile by default, and a host path above
// the kernel's directory, in which that directory cannot be seen.
func TestPodFiles(t *testing.T) {
	t.Parallel()
	e := standalone(t)
	ns := e.freeNamespace(t)
	data, err := filepath.EvalSymlinks(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(e.cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	e.apply(t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: files}
spec:
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: image, image: {reference: `+box+`, pullPolicy: IfNotPresent}}
  - {name: shared, emptyDir: {}}
  - {name: machine, hostPath: {path: /}}
  initContainers:
  - name: init
    image: `+box+`
    args: [write, /shared/env, "GREETING='hello to all'"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  containers:
  - name: c
    image: `+box+`
    args: [wait]
    env: [{name: READ, valueFrom: {fileKeyRef: {volumeName: shared, path: env, key: GREETING}}}]
    volumeMounts:
    - {name: image, mountPath: /image}
    - {name: image, mountPath: /etc2, subPath: etc}
    - {name: machine, mountPath: /machine, readOnly: true}
---
apiVersion: v1
kind: Pod
metadata: {name: thief}
spec:
  volumes: [{name: keys, hostPath: {path: `+data+`/pki}}]
  containers: [{name: c, image: `+box+`, args: [wait], volumeMounts: [{name: keys, mountPath: /keys}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: port}
spec:
  containers: [{name: c, image: `+box+`, args: [wait], ports: [{containerPort: 1, hostPort: `+api.Port()+`}]}]
`)
	e.awaitPod(t, ns, "files", isReady)
	in := func(command ...string) result {
		return e.try(t, append([]string{"-n", ns, "exec", "files", "--", "/box"}, command...)...)
	}
	for _, c := range []struct{ file, want string }{
		{"/image/etc/passwd", "boxer:x:1234"}, {"/etc2/passwd", "boxer:x:1234"}, {"/shared/env", ""},
		{"/proc/1/environ", "READ=hello to all"}, {"/proc/1/status", "Seccomp:\t2"},
	} {
		if r := in("cat", c.file); c.want != "" && !strings.Contains(r.stdout, c.want) {
			t.Errorf("%s: %q %s, want %q", c.file, r.stdout, r.stderr, c.want)
		}
	}
	if r := in("write", "/image/new", "no"); r.err == nil {
		t.Error("the image of a volume took a file")
	}
	if r := in("exists", "/machine/proc"); r.err != nil {
		t.Errorf("the host's root is not there: %+v", r)
	}
	for _, file := range []string{"/pki/ca.key", "/store", "/admin.kubeconfig", "/super-admin.kubeconfig"} {
		if r := in("exists", "/machine"+data+file); r.err == nil {
			t.Errorf("a container sees %s of the kernel", file)
		}
	}
	e.awaitPod(t, ns, "port", func(p *corev1.Pod) error {
		if p.Status.Phase == corev1.PodFailed && p.Status.Reason == "NodePorts" {
			return nil
		}
		return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
	})
	eventually(t, func(ctx context.Context) error {
		events, err := e.client.CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=thief,reason=FailedMount"})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if strings.Contains(event.Message, "which is the kernel's own and not given to pods") {
				return nil
			}
		}
		return fmt.Errorf("no event says that the path is refused: %v", events.Items)
	})
	e.kubectl(t, "-n", ns, "delete", "pod", "--all", "--timeout=110s")
}
