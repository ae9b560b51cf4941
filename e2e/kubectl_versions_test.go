package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubectlVersions: the kubectl of the three minor versions before serves as the one
// that is built in. make test-kubectl-versions builds them and runs this; make test does
// not, since each compiles for minutes.
func TestKubectlVersions(t *testing.T) {
	if os.Getenv("KUBECTL_VERSIONS") == "" {
		skip(t, "older versions of kubectl are for make test-kubectl-versions")
	}
	if _, err := exec.LookPath("diff"); err != nil {
		skip(t, "kubectl diff needs the program diff")
	}
	e := standalone(t)
	for _, version := range strings.Fields(os.Getenv("KUBECTL_VERSIONS")) {
		t.Run(strings.ReplaceAll(version, ".", "-"), func(t *testing.T) {
			e.olderKubectl(t, binary(t, filepath.Join("e2e", "kubectl-"+version)), version)
		})
	}
}

// olderKubectl lets one kubectl do what users do.
func (e *env) olderKubectl(t *testing.T, program, version string) {
	t.Helper()
	ns := e.namespace(t)
	try := func(stdin string, args ...string) result {
		return e.run(t, stdin, program, append([]string{"-n", ns}, args...)...)
	}
	in := func(stdin string, args ...string) string {
		t.Helper()
		r := try(stdin, args...)
		if r.err != nil {
			t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), r.err, r.stdout, r.stderr)
		}
		return r.stdout
	}
	var versions struct {
		ClientVersion, ServerVersion struct{ GitVersion string }
	}
	if err := json.Unmarshal([]byte(in("", "version", "-o", "json")), &versions); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(versions.ClientVersion.GitVersion, "v"+version+".") || versions.ServerVersion.GitVersion == "" {
		t.Errorf("versions: %+v", versions)
	}
	manifest := func(replicas int, word string) string {
		return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {word: %s}}
    spec: {containers: [{name: c, image: %s, args: [serve], readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 8080}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {word: %s}
`, replicas, word, box, word)
	}
	contains(t, in(manifest(1, "one"), "apply", "-f", "-"), "deployment.apps/web created", "service/web created", "configmap/page created")
	contains(t, in(manifest(1, "one"), "apply", "-f", "-"), "deployment.apps/web unchanged")
	contains(t, in("", "rollout", "status", "deployment/web", "--timeout=110s"), `deployment "web" successfully rolled out`)
	in("", "wait", "--for=condition=Available", "deployment/web", "--timeout=110s")
	in("", "wait", "--for=jsonpath={.status.readyReplicas}=1", "deployment/web", "--timeout=110s")

	// Diff tells what apply would change, and changes nothing.
	r := try(manifest(2, "two"), "diff", "-f", "-")
	var exit *exec.ExitError
	if !errors.As(r.err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("diff ended with %v: %s", r.err, r.stderr)
	}
	contains(t, r.stdout, "-  replicas: 1", "+  replicas: 2", "+  word: two")
	contains(t, in(manifest(2, "two"), "apply", "-f", "-"), "deployment.apps/web configured", "configmap/page configured")
	contains(t, in("", "rollout", "status", "deployment/web", "--timeout=110s"), "successfully rolled out")
	contains(t, in("", "rollout", "history", "deployment/web"), "REVISION", "1 ", "2 ")
	in("", "rollout", "undo", "deployment/web")
	in("", "rollout", "status", "deployment/web", "--timeout=110s")
	if word := in("", "get", "deployment", "web", "-o", "jsonpath={.spec.template.metadata.annotations.word}"); word != "one" {
		t.Errorf("after the undo the word is %q", word)
	}

	// By the server: who owns a field is asked for it.
	applied := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: page}\ndata: {word: three}\n"
	if r := try(applied, "apply", "--server-side", "--field-manager=other", "-f", "-"); r.err == nil || !strings.Contains(r.stderr, "conflict") {
		t.Errorf("server-side apply over another manager: %+v", r)
	}
	contains(t, in(applied, "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-"), "configmap/page serverside-applied")
	contains(t, in("", "get", "configmap", "page", "-o", "yaml", "--show-managed-fields"), "manager: other", "operation: Apply", "word: three")

	contains(t, in("", "get", "pods,deployments,services", "-o", "wide"), "READY", "pod/web-", "deployment.apps/web", "service/web", "CLUSTER-IP")
	contains(t, in("", "get", "pods", "-l", "app=web", "--watch", "--output-watch-events", "--request-timeout=2s"), "ADDED", "web-")
	pod := in("", "get", "pods", "-l", "app=web", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[0].metadata.name}")
	contains(t, in("", "exec", pod, "--", "/box", "get", "http://127.0.0.1:8080/log?q=spoken"), "200")
	eventually(t, func(context.Context) error {
		if r := try("", "logs", pod); r.err != nil || !strings.Contains(r.stdout, "spoken") {
			return fmt.Errorf("logs: %+v", r)
		}
		return nil
	})
	contains(t, in("", "explain", "deployment.spec.strategy"), "KIND:", "Deployment", "rollingUpdate", "RollingUpdate")
	contains(t, in("", "describe", "deployment", "web"), "Name:", "web", "ScalingReplicaSet")
	contains(t, in("", "scale", "deployment", "web", "--replicas=0"), "scaled")
	in("", "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=110s")
	contains(t, in(manifest(2, "two"), "delete", "-f", "-"), `deployment.apps "web" deleted`, `configmap "page" deleted`)
	if list, err := e.client.CoreV1().Services(ns).List(bound(t), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("services %v: %v", names(list), err)
	}
}

func names(list *corev1.ServiceList) (all []string) {
	for _, s := range list.Items {
		all = append(all, s.Name)
	}
	return all
}
