package api_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeNotThere: what the README's summary says is not there is not there on the page
// that lists all of it, and the README leads there. Rows that are on the page alone are
// checked here too.
func TestReadmeNotThere(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "The complete list") || !strings.Contains(string(data), "(kernel/KUBERNETES.md)") {
		t.Error("README.md does not lead to the complete list")
	}
	_, table, _ := strings.Cut(string(data), "| Area | Supported | Not supported |\n")
	var missing strings.Builder
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 {
			break
		}
		missing.WriteString(cells[2] + "\n")
	}
	const none, off = "none", "off"
	for _, c := range []struct {
		word          string // in the README's column; empty: on the page alone
		heading, name string
		says, because string
	}{
		{"ComponentStatus", "Kinds", "v1/componentstatuses", "not there", "deprecated"},
		{"attaching and growing of volumes", "Controllers", "persistentvolume-attach-detach-controller", "not there", ""},
		{"attaching and growing of volumes", "Controllers", "persistentvolume-expander-controller", "not there", ""},
		{"features that nodes declare", "Feature gates", "NodeDeclaredFeatures", off, "declare"},
		{"dynamic resources", "Feature gates", "DynamicResourceAllocation", off, "refused by the scheduler"},
		{"soft thresholds", "Settings of the node", "evictionSoft", none, "hard thresholds"},
		{"static pods", "Settings of the node", "staticPodPath", none, "static pods"},
		{"user namespaces", "Settings of the node", "userNamespaces", none, "user namespaces"},
		{"user namespaces", "Feature gates", "UserNamespacesSupport", off, "user namespaces"},
		{"swap", "Settings of the node", "memorySwap", none, "swap"},
		{"swap", "Feature gates", "NodeSwap", off, "swap"},
		{"devices", "Feature gates", "ResourceHealthStatus", off, "devices"},
		{"", "Authentication and authorization", "ABAC", "not there", "RBAC"},
		{"", "Authentication and authorization", "OIDC", "there", "egress selectors are not there"},
		{"", "Feature gates", "StructuredAuthenticationConfigurationEgressSelector", off, "directly"},
		{"", "Feature gates", "CPUManagerPolicyOptions", off, "managers of CPUs"},
		{"", "Settings of the node", "cpuManagerPolicy", none, "no such manager"},
		{"", "Feature gates", "KubeletServiceAccountTokenForCredentialProviders", off, "credentials for images"},
		{"", "Settings of the node", "podPidsLimit", none, "no limit of processes"},
		{"", "Feature gates", "ContainerCheckpoint", off, "checkpoints"},
		{"", "Feature gates", "NodeLogQuery", off, "journal"},
		{"", "Settings of the node", "enableSystemLogQuery", none, "journal"},
	} {
		row, ok := page(t, c.heading)[c.name]
		if !ok || row[0] != c.says || !strings.Contains(row[1], c.because) {
			t.Errorf("KUBERNETES.md says %q of %s; want %q, and %q in its remark", row, c.name, c.says, c.because)
		}
		if !strings.Contains(missing.String(), c.word) {
			t.Errorf("README.md does not say %q in its column of what is not there", c.word)
		}
	}
}
