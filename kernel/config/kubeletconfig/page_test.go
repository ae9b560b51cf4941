package kubeletconfig

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the section of kernel/KUBERNETES.md anew")

const (
	pageFile = "../../KUBERNETES.md"
	heading  = "\n## Settings of the node\n"
)

// section is what the page says of the fields of a KubeletConfiguration.
func section() string {
	var out strings.Builder
	out.WriteString(heading + "\nThe fields of a KubeletConfiguration, as `pintle config import-kubelet` translates them. The\nkey is where the configuration has it.\n\n| Field | Key | |\n|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		switch {
		case name == "apiVersion" || name == "kind":
		case r.key != "" && known(r.key):
			fmt.Fprintf(&out, "| `%s` | `node.%s` | |\n", name, r.key)
		default:
			fmt.Fprintf(&out, "| `%s` | none | %s |\n", name, r.fault+r.note)
		}
	}
	return out.String()
}

// TestPage: the page about Kubernetes says of each field what the import does with it.
func TestPage(t *testing.T) {
	data, err := os.ReadFile(pageFile)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), heading)
	if !ok {
		t.Fatalf("%s has no heading %q", pageFile, heading)
	}
	if at := strings.Index(after, "\n## "); at >= 0 {
		after = after[at:]
	} else {
		after = ""
	}
	want := before + section() + after
	if *update {
		if err := os.WriteFile(pageFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(data) != want {
		t.Errorf("%s is not what the rules say; go test ./kernel/config/kubeletconfig -run TestPage -update writes it", pageFile)
	}
}
