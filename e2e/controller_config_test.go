package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestControllerConfiguration: a controller of a process takes a changed
// configuration from its Plugin object. What it refuses is told there, and it
// works on as it did, in the same process.
func TestControllerConfiguration(t *testing.T) {
	t.Parallel()
	e := minimal(t, write(t, filepath.Join(t.TempDir(), "config.yaml"), `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  bundles:
  - {name: classic}
  - name: controllers
    config: {nodelifecycle: {nodeMonitorPeriod: 200ms, nodeStartupGracePeriod: 200ms, nodeMonitorGracePeriod: 500ms}}
scheduler:
  profiles:
  - {schedulerName: default-scheduler, predicates: [HostName]}
controllers: {enabled: [nodelifecycle, tainteviction]}
`), "")
	// quiet makes a node that nobody renews, and waits until its controller says so.
	quiet := func(name string) {
		t.Helper()
		if _, err := e.client.CoreV1().Nodes().Create(bound(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, func(ctx context.Context) error {
			n, err := e.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, taint := range n.Spec.Taints {
				if taint.Key == corev1.TaintNodeUnreachable {
					return nil
				}
			}
			return fmt.Errorf("node %s is not found unreachable: %v", name, n.Spec.Taints)
		})
	}
	quiet("first")
	processes := func() string {
		return e.kubectl(t, "get", "plugin", "nodelifecycle", "-o", "jsonpath={.status.pid} {.status.restarts}")
	}
	before := processes()
	for _, c := range []struct{ name, period, accepted, says string }{
		{"taken", "300ms", "True", ""},
		{"refused", "1ms", "False", "nodeMonitorPeriod: 1ms is less than 100ms"},
		{"mended", "200ms", "True", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.kubectl(t, "patch", "plugin", "nodelifecycle", "--type=merge", "-p", `{"spec":{"config":{"nodeMonitorPeriod":"`+c.period+`"}}}`)
			want := e.kubectl(t, "get", "plugin", "nodelifecycle", "-o", "jsonpath={.metadata.generation}") + " " + c.accepted
			eventually(t, func(context.Context) error {
				const path = `{.status.observedGeneration} {.status.conditions[?(@.type=="Accepted")].status}: {.status.conditions[?(@.type=="Accepted")].message} ({.status.state})`
				r := e.try(t, "get", "plugin", "nodelifecycle", "-o", "jsonpath="+path)
				if !strings.HasPrefix(r.stdout, want+":") || !strings.Contains(r.stdout, c.says) || !strings.HasSuffix(r.stdout, "(Ready)") {
					return fmt.Errorf("it says %q, want %s with %q, and Ready\n%s", r.stdout, want, c.says, r.stderr)
				}
				return nil
			})
			quiet(c.name)
			if after := processes(); after != before {
				t.Errorf("process and restarts %q, before %q", after, before)
			}
		})
	}
}
