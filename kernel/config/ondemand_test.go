package config

import (
	"slices"
	"strings"
	"testing"
)

// TestOnDemand: faults of controllers.onDemand name their key, and say what would be right.
func TestOnDemand(t *testing.T) {
	const ok = "controllers: {onDemand: [{name: a, objects: [{version: v1, resource: pods, fields: [{path: \"metadata.annotations['example.com/x.y']\", values: [\"\", x]}]}]}]}\n"
	for _, tt := range []struct{ from, to, want string }{
		{"", "", ""},
		{"name: a", "name: ''", "controllers.onDemand[0].name"},
		{"version: v1, ", "", `key "version" is missing`},
		{"resource: pods", "resource: Pod", `controllers.onDemand[0].objects[0].resource: "Pod" is no resource`},
		{"resource: pods", "resource: pods/status", `"pods/status" is no resource`},
		{"metadata.annotations['example.com/x.y']", "metadata.annotations.", `controllers.onDemand[0].objects[0].fields[0].path: "metadata.annotations." is no path`},
		{`values: ["", x]`, "values: []", "controllers.onDemand[0].objects[0].fields[0].values: is empty"},
		{"onDemand: [", "enabled: [a], onDemand: [", "is in controllers.enabled, too"},
		{"onDemand: [", "onDemand: [{name: a, objects: [{version: v1, resource: nodes}]}, ", `"a" is listed twice`},
		{"onDemand: [", "onDemand: [{name: b}, ", "nothing starts b"},
	} {
		text := ok
		if tt.from != "" {
			if text = strings.Replace(ok, tt.from, tt.to, 1); text == ok {
				t.Fatalf("%q is not there", tt.from)
			}
		}
		_, err := Load(Source{File: write(t, head+text)})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("refused: %v", err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s → %s: %v, want %q", tt.from, tt.to, err, tt.want)
		}
	}
}

// An empty value in a list is shown as one, and read back.
func TestShowEmptyItem(t *testing.T) {
	var cfg Config
	cfg.Control.OnDemand = []OnDemand{{Name: "ingress", Objects: []DemandObject{{
		Version: "v1", Resource: "ingresses", Fields: []DemandField{{Path: "spec.ingressClassName", Values: []string{"", "pintle"}}},
	}}}}
	var out strings.Builder
	if err := Show(&out, &cfg); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `values: ["", pintle]`) {
		t.Errorf("it is shown as\n%s", out.String())
	}
}

// Paths of members are names with dots between them, and nothing else is one.
func TestMembersOfDemand(t *testing.T) {
	for path, want := range map[string][]string{
		"spec.class": {"spec", "class"},
		"metadata.annotations['example.com/class.name']": {"metadata", "annotations", "example.com/class.name"},
	} {
		if got := (DemandField{Path: path}).Member(); !slices.Equal(got, want) {
			t.Errorf("%s leads by %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"", ".", "a.", ".a", "a..b", "a['']", "a['x']['y']", "a[0]", "a b", "$a", "a['x'].b"} {
		if (DemandField{Path: path}).Member() != nil {
			t.Errorf("%q is taken for a path", path)
		}
	}
}
