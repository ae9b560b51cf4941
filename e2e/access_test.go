package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAccess: the keys of a configuration open the ways in that they name, and a
// webhook that cannot be asked and denies then stops neither the nodes nor the
// scheduler.
func TestAccess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hook := write("webhook", `{apiVersion: v1, kind: Config, current-context: w,
 clusters: [{name: w, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: w, context: {cluster: w}}]}`)
	authorization := write("authorization.yaml", fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: unreachable
  webhook:
    timeout: 1s
    failurePolicy: Deny
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: "has(request.resourceAttributes) && !('pintle:cluster-admins' in request.groups) && !('devs' in request.groups)"}]
- {type: Node, name: node}
- {type: RBAC, name: rbac}
`, hook))
	admission := write("admission.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodNodeSelector
  configuration: {podNodeSelectorPluginConfig: {default: kubernetes.io/os=linux}}
`)
	config := write("config.yaml", fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
auth:
  authorizationConfig: %s
  tokenFile: %s
  authenticationConfig: %s
  bootstrapTokens: true
node: {enabled: false}
admission: {config: %s, enable: [PodNodeSelector], disable: [ServiceAccount]}
plugins:
  bundles:
  - {name: classic, transport: process}
  - {name: hollow, privileged: true}
scheduler:
  profiles:
  - {schedulerName: default-scheduler, predicates: [CheckNodeUnschedulable, PodFitsResources], priorities: [{name: LeastRequestedPriority}]}
hollow: {runtime: hollow, nodes: 1}
`, authorization, write("tokens.csv", "secret-of-carol,carol,7,\"devs\"\n"),
		write("authentication.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /livez}]}\n"), admission))
	e := minimal(t, config, filepath.Join(dir, "data"))
	e.kubectl(t, "create", "clusterrolebinding", "devs", "--clusterrole=view", "--group=devs")
	asCarol := []string{"--kubeconfig", tokenKubeconfig(t, e, "secret-of-carol")}
	eventually(t, func(context.Context) error {
		if out := e.try(t, append(asCarol, "auth", "can-i", "list", "pods")...); !strings.HasPrefix(said(out), "yes") {
			return fmt.Errorf("carol may not list pods: %s", said(out))
		}
		return nil
	})
	if out := e.kubectl(t, append(asCarol, "auth", "whoami")...); !strings.Contains(out, "carol") || !strings.Contains(out, "devs") {
		t.Errorf("who am I: %s", out)
	}
	if out := e.try(t, append(asCarol, "auth", "can-i", "--list")...); !strings.Contains(said(out), "pods") || !strings.Contains(said(out), "incomplete") {
		t.Errorf("what may I: %s", said(out))
	}
	// The kernel's own parts go on: a node, and a pod on it.
	e.kubectl(t, "run", "placed", "--image=none.example/none", "--restart=Never")
	eventually(t, func(context.Context) error {
		if out := e.kubectl(t, "get", "pod", "placed", "-o", "jsonpath={.status.phase}"); out != "Running" {
			return fmt.Errorf("the pod is %q", out)
		}
		return nil
	})
	if out := e.try(t, "run", "elsewhere", "--image=none.example/none", "--restart=Never", `--overrides={"spec":{"nodeSelector":{"a":"b"}}}`); out.err == nil || !strings.Contains(said(out), "namespace whitelist") {
		t.Errorf("a selector that is not allowed: %s", said(out))
	}
	// Who is nobody sees what is open, and nothing else.
	nobody := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(e.cfg)).Discovery().RESTClient()
	if out, err := nobody.Get().AbsPath("/livez").DoRaw(bound(t)); err != nil || string(out) != "ok" {
		t.Errorf("/livez as nobody: %s, %v", out, err)
	}
	if out, err := nobody.Get().AbsPath("/version").DoRaw(bound(t)); !apierrors.IsUnauthorized(err) {
		t.Errorf("/version as nobody: %s, %v", out, err)
	}
	e.stop(t)
}

// said is all that a program said.
func said(r result) string { return r.stdout + r.stderr }
