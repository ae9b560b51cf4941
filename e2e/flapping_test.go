package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// TestFlapping: an operator, or a script of his, takes a predicate out and puts
// it back 50 times on end, as a module and as a process. Each change is in force
// before the next, pods are placed by what is in force, and at the end the kernel
// holds what it held before.
func TestFlapping(t *testing.T) {
	t.Parallel()
	const times = 50
	own := filepath.Dir(binary(t, "pintle"))
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "classic"), os.DirFS(filepath.Join(own, "plugins", "classic"))); err != nil {
		t.Fatal(err)
	}
	e := minimal(t, "", "", "plugins.directories=["+folder+"]")
	e.placer(t)
	change := func(plugin, patch string, reached func(*v1alpha1.Plugin) bool) {
		t.Helper()
		path := "/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins/" + plugin
		c := e.client.CoreV1().RESTClient()
		if err := c.Patch(types.MergePatchType).AbsPath(path).Body([]byte(patch)).Do(bound(t)).Error(); err != nil {
			t.Fatalf("patch %s with %s: %v", plugin, patch, err)
		}
		eventually(t, func(ctx context.Context) error {
			text, err := c.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
			if err != nil {
				return err
			}
			var p v1alpha1.Plugin
			if err := json.Unmarshal(text, &p); err != nil {
				return err
			}
			if !reached(&p) {
				return fmt.Errorf("plugin %s after %s: %+v", plugin, patch, p.Status)
			}
			return nil
		})
	}
	state := func(want v1alpha1.PluginState) func(*v1alpha1.Plugin) bool {
		return func(p *v1alpha1.Plugin) bool { return p.Status.State == want }
	}
	transport := func(want v1alpha1.PluginTransport) {
		t.Helper()
		change("HostName", `{"spec":{"transport":"`+string(want)+`"}}`, func(p *v1alpha1.Plugin) bool {
			return p.Status.Transport == want && p.Status.State == v1alpha1.PluginStateReady
		})
	}
	transport("wasm")
	e.ask(t, "first", "default-scheduler")
	e.placed(t, "first")
	before := e.counts(t)
	for _, kind := range []v1alpha1.PluginTransport{"wasm", "process"} {
		transport(kind)
		for i := range times {
			change("PodFitsResources", `{"spec":{"enabled":false}}`, state(v1alpha1.PluginStateDisabled))
			if i%10 == 0 {
				// More than a node has: a cycle that still asked would refuse it.
				pod := fmt.Sprintf("%s-%d", kind, i)
				e.askFor(t, pod, "default-scheduler", "9")
				e.placed(t, pod)
			}
			change("PodFitsResources", `{"spec":{"enabled":true}}`, state(v1alpha1.PluginStateReady))
		}
		e.askFor(t, string(kind)+"-last", "default-scheduler", "9")
		e.refused(t, string(kind)+"-last", "Insufficient cpu")
		if out := e.kubectl(t, "get", "plugin", "PodFitsResources", "-o", "jsonpath={.status.restarts}"); out != "" && out != "0" {
			t.Errorf("as %s: started again %s times", kind, out)
		}
	}
	transport("wasm")
	e.returnsTo(t, before, folder)
}
