package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin"
)

const observeConfig = `
apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
plugins:
  bundles:
  - name: classic
  - name: controllers
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [PodFitsResources]
controllers: {enabled: [namespace, serviceaccount]}
`

// TestObserve: what plugins log and count appears among the kernel's, under their
// names: while they run, and of one that was killed.
func TestObserve(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(observeConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e := minimal(t, config, filepath.Join(t.TempDir(), "data"))
	way := []string{"--kubeconfig", e.Kubeconfig}
	logs := func(args ...string) []plugin.LogRecord {
		t.Helper()
		r := e.run(t, "", binary(t, "pintle"), append(append([]string{"plugin", "logs", "-o", "json"}, way...), args...)...)
		if r.err != nil {
			t.Fatalf("plugin logs %s: %v\n%s", args, r.err, r.stderr)
		}
		var list []plugin.LogRecord
		for in := bufio.NewScanner(strings.NewReader(r.stdout)); in.Scan(); {
			var record plugin.LogRecord
			if err := json.Unmarshal(in.Bytes(), &record); err != nil {
				t.Fatalf("%q: %v", in.Text(), err)
			}
			list = append(list, record)
		}
		return list
	}
	for _, name := range []string{"classic", "PodFitsResources", "controllers", "namespace"} {
		list := logs(name)
		if len(list) == 0 || list[0].Message != "plugin bundle is ready" || list[0].Source != "host" || list[0].Version == "" {
			t.Errorf("logs of %s: %+v", name, list)
		}
	}
	r := e.run(t, "", binary(t, "pintle"), append([]string{"plugin", "logs", "nobody"}, way...)...)
	if exit, ok := r.err.(*exec.ExitError); !ok || exit.ExitCode() != 4 {
		t.Errorf("logs of nobody: %v, want exit status 4\n%s", r.err, r.stderr)
	}

	metrics := func(ctx context.Context) (string, error) {
		text, err := e.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		return string(text), err
	}
	eventually(t, func(ctx context.Context) error {
		text, err := metrics(ctx)
		if err != nil {
			return err
		}
		for _, want := range []string{
			`pintle_plugin_state{bundle="controllers",kind="controller",plugin="namespace",state="Ready",transport="process"} 1`,
			`pintle_plugin_calls_total{bundle="classic",kind="predicate",plugin="PodFitsResources",result="success"} `,
			`workqueue_adds_total{name="serviceaccount",plugin="controllers"} `,
			`controller_runtime_reconcile_total{controller="serviceaccount",plugin="controllers",result="success"} `,
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("metrics lack %s", want)
			}
		}
		return nil
	})

	// One that dies is told of to who follows, and afterwards.
	follow := exec.Command(binary(t, "pintle"), append([]string{"plugin", "logs", "controllers", "--follow"}, way...)...)
	out, err := follow.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	go func() {
		defer close(told)
		for in := bufio.NewScanner(out); in.Scan(); {
			if strings.Contains(in.Text(), "is started again") {
				told <- in.Text()
				return
			}
		}
	}()
	pid := 0
	eventually(t, func(context.Context) (err error) { // the object is written after the start
		r := e.run(t, "", binary(t, "pintle"), "kubectl", "--kubeconfig", e.Kubeconfig, "get", "plugin", "namespace", "-o", "jsonpath={.status.pid}")
		if pid, err = strconv.Atoi(r.stdout); err == nil && pid <= 1 {
			err = fmt.Errorf("process %d", pid)
		}
		return err
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-told:
		if !strings.Contains(line, "ERROR host") {
			t.Errorf("who follows was told %q", line)
		}
	case <-bound(t).Done():
		t.Error("who follows was not told of the end of a plugin")
	}
	_ = follow.Process.Signal(os.Interrupt)
	for range told {
	}
	_ = follow.Wait()
	eventually(t, func(ctx context.Context) error {
		list := logs("namespace", "--tail", "1")
		if len(list) != 1 || list[0].Message != "plugin bundle is ready" {
			return fmt.Errorf("the last record is %+v", list)
		}
		text, err := metrics(ctx)
		if err == nil && !strings.Contains(text, `pintle_plugin_restarts_total{bundle="controllers",kind="controller",plugin="namespace"} 1`) {
			err = fmt.Errorf("metrics do not count the restart")
		}
		return err
	})
	if _, err := e.client.CoreV1().Namespaces().Get(bound(t), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	e.stop(t)
}
