package main

import (
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/plugins/readmes"
	"pintle.dev/pintle/sdk"
)

// The manifest lists what is registered, and gives rights to the plugin that writes
// alone.
func TestManifest(t *testing.T) {
	data, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Rules   []any
		Plugins []struct {
			Name, Kind string
			Rules      []struct{ Resources, Verbs []string }
		}
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	var listed, registered []string
	for _, p := range manifest.Plugins {
		listed = append(listed, p.Name+" "+p.Kind)
		if (len(p.Rules) > 0) != (p.Kind == sdk.KindPreBind) {
			t.Errorf("%s has the rules %v", p.Name, p.Rules)
		}
		for _, r := range p.Rules {
			for _, verb := range r.Verbs {
				if verb != "get" && verb != "update" {
					t.Errorf("%s may %s %v", p.Name, verb, r.Resources)
				}
			}
		}
	}
	for _, p := range sdk.NewGuest().Plugins() {
		registered = append(registered, p.Name+" "+p.Kind)
		if p.Pods != sdk.PodsWithClaims || !p.Instances {
			t.Errorf("%s: asked about %q, instances %v", p.Name, p.Pods, p.Instances)
		}
	}
	if !slices.Equal(listed, registered) || len(manifest.Rules) > 0 {
		t.Errorf("registered %v, manifest %v with rules %v", registered, listed, manifest.Rules)
	}
}

func TestReadmes(t *testing.T) {
	for _, p := range sdk.NewGuest().Plugins() {
		readmes.Check(t, readmes.File(p), p)
	}
}
