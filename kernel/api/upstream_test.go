package api_test

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"pintle.dev/pintle/kernel/api/admission"
	"pintle.dev/pintle/kernel/api/enablement"
	"pintle.dev/pintle/kernel/features"
)

// upstream reads the names of a section of Kubernetes' own list.
func upstream(t *testing.T, section string) []string {
	t.Helper()
	f, err := os.Open("testdata/upstream/kubernetes-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == section {
			names = append(names, fields[1])
		}
	}
	if len(names) == 0 {
		t.Fatalf("no name of section %s", section)
	}
	return names
}

// page reads the rows of the page about Kubernetes: by heading, each name with the two columns after it.
func page(t *testing.T, heading string) map[string][2]string {
	t.Helper()
	data, err := os.ReadFile("../KUBERNETES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("KUBERNETES.md has no heading %q", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	rows := map[string][2]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|([^|\n]*)\\|$").FindAllStringSubmatch(rest, -1) {
		if _, twice := rows[row[1]]; twice {
			t.Errorf("KUBERNETES.md names %s twice", row[1])
		}
		rows[row[1]] = [2]string{row[2], strings.TrimSpace(row[3])}
	}
	return rows
}

// compare wants each of upstream's names on the page, no others, and what the page says of them to be so.
func compare(t *testing.T, want []string, rows map[string][2]string, there func(name, remark string) bool) {
	t.Helper()
	for _, name := range want {
		row, ok := rows[name]
		switch {
		case !ok:
			t.Errorf("KUBERNETES.md does not name %s", name)
		case row[0] != "there" && row[0] != "not there":
			t.Errorf("KUBERNETES.md says %q of %s; want \"there\" or \"not there\"", row[0], name)
		case row[0] == "not there" && row[1] == "":
			t.Errorf("KUBERNETES.md gives no reason why %s is not there", name)
		case there != nil && (row[0] == "there") != there(name, row[1]):
			t.Errorf("KUBERNETES.md says %q of %s, and that is not so", row[0], name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		if !slices.Contains(want, name) {
			t.Errorf("KUBERNETES.md names %s, which Kubernetes does not have", name)
		}
	}
}

// TestKubernetesPage: everything that Kubernetes serves and runs is on the page, which says truly what is there.
func TestKubernetesPage(t *testing.T) {
	s := start(t, t.TempDir())
	served := map[string]bool{}
	_, resources, err := discovery.NewDiscoveryClientForConfigOrDie(s.ClientConfig(admin)).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range resources {
		for _, r := range list.APIResources {
			served[list.GroupVersion+"/"+r.Name] = true
		}
	}
	compare(t, upstream(t, "resource"), page(t, "Kinds"), func(name, _ string) bool { return served[name] })

	compare(t, upstream(t, "off"), page(t, "Kinds that are off by default"), func(name, _ string) bool { return served[name] })

	manifest, err := os.ReadFile("../../plugins/controllers/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plugin := regexp.MustCompile("^plugin `([^`]+)`")
	compare(t, upstream(t, "controller"), page(t, "Controllers"), func(name, remark string) bool {
		if m := plugin.FindStringSubmatch(remark); m != nil {
			return strings.Contains(string(manifest), "\n- name: "+m[1]+"\n")
		}
		return strings.HasPrefix(remark, "in the kernel") || strings.HasPrefix(remark, "in the SDK")
	})
	compare(t, upstream(t, "admission"), page(t, "Admission plugins"), func(name, _ string) bool {
		return slices.Contains(admission.Names(), name)
	})
	compare(t, slices.Concat(upstream(t, "authentication"), upstream(t, "authorization")), page(t, "Authentication and authorization"), nil)
}

// TestOffByDefault: who asks for a kind that Kubernetes has off by default, by its version
// or by its gate, is refused with the page that says why it is not served.
func TestOffByDefault(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream/kubernetes-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows, seen := page(t, "Kinds that are off by default"), 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "off" {
			continue
		}
		seen++
		name, gate := fields[1], fields[2]
		version := name[:strings.LastIndex(name, "/")]
		for _, key := range []string{version, name} {
			keys, _ := enablement.Check(map[string]string{key: "true"})
			if err := keys[key]; err == nil || !strings.Contains(err.Error(), version+" is off by default in Kubernetes") || !strings.Contains(err.Error(), "kernel/KUBERNETES.md") {
				t.Errorf("api.runtimeConfig %s: %v; want the page that says why it is not served", key, err)
			}
		}
		if gate == "-" {
			if !strings.HasSuffix(rows[name][1], "/v1`, which is served") {
				t.Errorf("KUBERNETES.md says %q of %s; want the version that is served", rows[name][1], name)
			}
			continue
		}
		if !strings.HasSuffix(rows[name][1], ", behind the gate `"+gate+"`") {
			t.Errorf("KUBERNETES.md says %q of %s; want the gate %s", rows[name][1], name, gate)
		}
		if err := features.Check(gate, "true"); err == nil || !strings.Contains(err.Error(), "kernel/KUBERNETES.md") {
			t.Errorf("features %s: %v; want the page that says what is there", gate, err)
		}
	}
	if seen < 30 {
		t.Errorf("%d kinds are off by default", seen)
	}
}

// TestAPIResources: what `kubectl api-resources` lists is what it lists of a
// kube-apiserver, under the same names and preferred versions, but for what the
// page leaves out with a reason, and for our own.
func TestAPIResources(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream/api-resources-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			want = append(want, line)
		}
	}
	if len(want) < 60 {
		t.Fatalf("%d resources were recorded", len(want))
	}
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(start(t, t.TempDir()).ClientConfig(admin)).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !strings.HasPrefix(list.GroupVersion, "kernel.pintle.dev/") {
				have = append(have, r.Kind+" "+r.Name+" "+list.GroupVersion)
			}
		}
	}
	rows := page(t, "Kinds")
	for _, line := range want {
		if slices.Contains(have, line) {
			continue
		}
		fields := strings.Fields(line)
		if row := rows[fields[2]+"/"+fields[1]]; row[0] != "not there" || row[1] == "" {
			t.Errorf("%s is not served, and KUBERNETES.md gives no reason: %q", line, row)
		}
	}
	for _, line := range have {
		if !slices.Contains(want, line) {
			t.Errorf("%s is served, and is not what kube-apiserver lists", line)
		}
	}
}
