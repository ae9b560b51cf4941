package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/e2e/cluster"
)

// frames make a package of each Go fragment of the author's guide, in their order:
// what is to stand before and behind it, and the module that has what it imports.
var frames = []struct {
	begins        string
	module        string
	before, after string
}{
	{
		begins: "func main() {\n\tapiserver.Serve(",
		before: `
import (
	"net/http"

	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/sdk/apiserver"
)

type server struct{ client kubernetes.Interface }

func (*server) ServeHTTP(http.ResponseWriter, *http.Request) {}

`,
	},
	{
		begins: "func main() { cloud.Serve(",
		before: `
import (
	cloudprovider "k8s.io/cloud-provider"

	"pintle.dev/pintle/sdk/cloud"
)

func newProvider(*cloud.Context) (cloudprovider.Interface, error) { return nil, nil }

`,
	},
	{
		begins: "var zones = ",
		before: `
import (
	"github.com/prometheus/client_golang/prometheus"

	"pintle.dev/pintle/sdk/metrics"
)
`,
	},
	{
		begins: "Events: ",
		before: `
import "pintle.dev/pintle/sdk"

func matches(*sdk.Pod, *sdk.Node) bool { return true }

var _ = sdk.Predicate{
`,
		after: "}\n",
	},
	{
		begins: "c := plugintest.",
		before: `
import (
	"testing"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/plugintest"
)

var (
	Tiers sdk.Predicate
	pod   *plugintest.Pod
)

func TestTiers(t *testing.T) {
	t.Parallel()
`,
		after: "}\n",
	},
	{
		begins: "func main() {\n\tcontroller.Serve(",
		module: "e2e/operator",
		before: `
import (
	"context"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"pintle.dev/pintle/sdk/controller"
)

func run(context.Context, *rest.Config, string) error { return nil }

`,
	},
}

// TestDocumentsFragments compiles what the author's guide shows of Go without a file
// of its own, in a frame each.
func TestDocumentsFragments(t *testing.T) {
	t.Parallel()
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	var fragments []fence
	for _, f := range fences(t, "sdk/README.md") {
		if f.language == "go" && f.note == "" {
			fragments = append(fragments, f)
		}
	}
	if len(fragments) != len(frames) {
		t.Fatalf("sdk/README.md has %d fragments of Go, and %d frames are here for them", len(fragments), len(frames))
	}
	for i, f := range fragments {
		frame := frames[i]
		if !strings.HasPrefix(f.text, frame.begins) {
			t.Errorf("sdk/README.md:%d begins otherwise than with %q, for which there is a frame", f.line, frame.begins)
			continue
		}
		// The package is in the module for the compiler alone.
		module, dir := filepath.Join(repo, frame.module), t.TempDir()
		file, overlay := filepath.Join(dir, "fragment.go"), filepath.Join(dir, "overlay.json")
		names, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, "fragment", "fragment.go"): file}})
		if err != nil {
			t.Fatal(err)
		}
		text := "package fragment\n" + frame.before + f.text + frame.after
		for name, data := range map[string][]byte{file: []byte(text), overlay: names} {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "./fragment")
		cmd.Dir = module
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("sdk/README.md:%d: %v\n%s\n%s", f.line, err, out, text)
		}
	}
}
