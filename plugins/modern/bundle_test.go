package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/plugins/readmes"
	"pintle.dev/pintle/sdk"
)

// The manifest lists what is registered, in that order.
func TestManifest(t *testing.T) {
	data, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type entry struct{ Name, Kind string }
	var manifest struct{ Plugins []entry }
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	var registered []entry
	for _, p := range sdk.NewGuest().Plugins() {
		registered = append(registered, entry{p.Name, p.Kind})
		if !p.Instances {
			t.Errorf("%s: profiles cannot configure it apart", p.Name)
		}
		if p.Kind == sdk.KindPriority && p.MaxScore != sdk.MaxFrameworkScore {
			t.Errorf("%s: scores go up to %d", p.Name, p.MaxScore)
		}
	}
	if !slices.Equal(registered, manifest.Plugins) {
		t.Errorf("registered %v, manifest %v", registered, manifest.Plugins)
	}
}

// Every plugin has a folder of its name, whose README has the fixed headings and
// an example that names it.
func TestReadmes(t *testing.T) {
	for _, p := range sdk.NewGuest().Plugins() {
		readmes.Check(t, readmes.File(p), p)
		data, err := os.ReadFile(readmes.File(p))
		if err != nil {
			t.Error(err)
			continue
		}
		rest := data
		for _, heading := range []string{"# " + p.Name, "## What it decides", "## Scope", "## Failure mode", "## Configuration", "## Example"} {
			_, after, ok := bytes.Cut(rest, []byte(heading+"\n"))
			if !ok {
				t.Errorf("%s: no heading %q in its place", p.Name, heading)
				break
			}
			rest = after
		}
		_, block, _ := bytes.Cut(rest, []byte("```yaml\n"))
		block, _, _ = bytes.Cut(block, []byte("```"))
		var example struct {
			Scheduler struct {
				Profiles []struct {
					SchedulerName string         `yaml:"schedulerName"`
					QueueSort     string         `yaml:"queueSort"`
					PreEnqueue    []string       `yaml:"preEnqueue"`
					PreFilter     []string       `yaml:"preFilter"`
					PostFilter    []string       `yaml:"postFilter"`
					PreBind       []string       `yaml:"preBind"`
					Config        map[string]any `yaml:"config"`
					Predicates    []string
					Reserve, Bind []string
					Priorities    []struct {
						Name   string
						Weight int
					}
				}
			}
		}
		decoder := yaml.NewDecoder(bytes.NewReader(block))
		decoder.KnownFields(true)
		if err := decoder.Decode(&example); err != nil || len(example.Scheduler.Profiles) != 1 {
			t.Errorf("%s: example: %v", p.Name, err)
			continue
		}
		profile := example.Scheduler.Profiles[0]
		named := slices.Concat(profile.PreEnqueue, []string{profile.QueueSort}, profile.PreFilter, profile.Predicates, profile.PostFilter, profile.Reserve, profile.PreBind, profile.Bind)
		for _, s := range profile.Priorities {
			named = append(named, s.Name)
		}
		if !slices.Contains(named, p.Name) {
			t.Errorf("%s: the example does not name it", p.Name)
		}
	}
}
