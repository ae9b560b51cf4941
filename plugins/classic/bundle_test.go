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

// SCH-13, SCH-14: the names, and those of the manifest, are exactly these.
func TestNames(t *testing.T) {
	want := map[string][]string{
		"predicate": {
			"CheckNodeUnschedulable", "HostName", "MatchNodeSelector", "MaxEBSVolumeCount", "MaxGCEPDVolumeCount", "NoDiskConflict",
			"NoVolumeZoneConflict", "PodFitsHostPorts", "PodFitsResources", "PodToleratesNodeTaints",
		},
		"priority": {
			"BalancedResourceAllocation", "EqualPriority", "ImageLocalityPriority", "LeastRequestedPriority", "NodeAffinityPriority",
			"SelectorSpreadPriority", "ServiceSpreadingPriority",
		},
	}
	got := map[string][]string{}
	for _, p := range sdk.NewGuest().Plugins() {
		got[p.Kind] = append(got[p.Kind], p.Name)
	}
	data, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Plugins []struct{ Name, Kind string }
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, p := range manifest.Plugins {
		listed[p.Kind] = append(listed[p.Kind], p.Name)
	}
	for kind, names := range want {
		slices.Sort(got[kind])
		slices.Sort(listed[kind])
		if !slices.Equal(got[kind], names) {
			t.Errorf("registered %s: %v", kind, got[kind])
		}
		if !slices.Equal(listed[kind], names) {
			t.Errorf("manifest %s: %v", kind, listed[kind])
		}
	}
}

// Every predicate says what can help a pod that it refused, so that no other event
// wakes the pod: each has room that comes with a node, and nobody waits for new pods.
func TestPredicatesDeclareEvents(t *testing.T) {
	for _, build := range predicates() {
		p := build()
		node := false
		for _, i := range p.Events {
			node = node || i.Kind == sdk.KindNode && i.Actions&sdk.ActionAdd != 0
			if i.Kind == sdk.KindPod && i.Actions&sdk.ActionAdd != 0 {
				t.Errorf("%s: a pod that comes helps nobody", p.Name)
			}
		}
		if !node {
			t.Errorf("%s declares no node that comes: %+v", p.Name, p.Events)
		}
	}
}

// Every plugin has a folder of its name, whose README has the fixed headings
// and an example that names it.
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
					SchedulerName string
					Predicates    []string
					Priorities    []struct {
						Name   string
						Weight int
					}
				}
			}
		}
		decoder := yaml.NewDecoder(bytes.NewReader(block))
		if err := decoder.Decode(&example); err != nil || len(example.Scheduler.Profiles) != 1 {
			t.Errorf("%s: example: %v", p.Name, err)
			continue
		}
		profile := example.Scheduler.Profiles[0]
		if !slices.Contains(profile.Predicates, p.Name) && (len(profile.Priorities) != 1 || profile.Priorities[0].Name != p.Name) {
			t.Errorf("%s: the example does not name it", p.Name)
		}
	}
}
