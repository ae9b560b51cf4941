package peer

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/sdk"
)

// bundle is where the modern set lies, from here.
const bundle = "modern"

// filters are kube-scheduler's filter plugins in the order of its default profile;
// scores its score plugins, without VolumeBinding's, whose gate StorageCapacityScoring
// is off. The plugins of pods' devices and of declared features
// are not in the modern set.
var (
	filters = []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
		"NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
	}
	scores = []string{
		"TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity",
		"NodeResourcesBalancedAllocation", "ImageLocality",
	}
)

// set is the bundle with the names that its plugins have for kube-scheduler's, which
// are both a filter and a score under one name.
type set struct {
	directory  string
	cache      string
	predicates map[string]string // by kube-scheduler's name
	priorities map[string]string
	points     map[string][]string
}

// build makes a folder with the bundle's module.
func build(t *testing.T) *set {
	t.Helper()
	out := &set{directory: t.TempDir(), cache: t.TempDir(), predicates: map[string]string{}, priorities: map[string]string{}, points: map[string][]string{}}
	dir := filepath.Join(out.directory, bundle)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("../../plugins", bundle, plugin.ManifestFile)
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := plugin.ReadManifest(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range m.Plugins {
		plain := strings.TrimSuffix(strings.TrimSuffix(e.Name, "Score"), "Priority")
		switch {
		case string(e.Kind) == sdk.KindPredicate && slices.Contains(filters, e.Name):
			out.predicates[e.Name] = e.Name
		case string(e.Kind) == sdk.KindPriority && slices.Contains(scores, plain):
			out.priorities[plain] = e.Name
		case slices.Contains([]string{sdk.KindPreFilter, sdk.KindPreScore}, string(e.Kind)):
			out.points[string(e.Kind)] = append(out.points[string(e.Kind)], e.Name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, plugin.ManifestFile), manifest, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, bundle+".wasm"), "pintle.dev/pintle/plugins/"+bundle)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := plugin.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return out
}

// profile is the default profile with the cluster's configuration.
func (s *set) profile(config []pluginConfig) plugin.Profile {
	p := plugin.Profile{SchedulerName: v1.DefaultSchedulerName, Points: s.points, Config: map[string]json.RawMessage{}}
	for _, name := range filters {
		if own := s.predicates[name]; own != "" {
			p.Predicates = append(p.Predicates, own)
		}
	}
	for _, name := range scores {
		if own := s.priorities[name]; own != "" {
			p.Priorities = append(p.Priorities, plugin.WeightedPriority{Name: own, Weight: 1})
		}
	}
	for _, c := range config {
		var args map[string]json.RawMessage
		if err := json.Unmarshal(c.Args, &args); err != nil {
			panic(err)
		}
		delete(args, "apiVersion")
		delete(args, "kind")
		data, _ := json.Marshal(args)
		for _, own := range []string{s.predicates[c.Name], s.priorities[c.Name]} {
			if own != "" {
				p.Config[own] = data
			}
		}
	}
	return p
}

// served is a host that serves one profile.
type served struct {
	host       *plugin.Host
	source     scheduler.PolicySource
	generation uint64
	stop       func()
}

func (s *set) serve(t *testing.T, config []pluginConfig) *served {
	t.Helper()
	host, err := plugin.New(plugin.Config{
		Directories: []string{s.directory}, CacheDirectory: s.cache, StartTimeout: time.Minute, CallTimeout: 10 * time.Second,
		Bundles: []plugin.BundleConfig{{Name: bundle, Transport: plugin.TransportWASM}}, Profiles: []plugin.Profile{s.profile(config)},
	}, plugin.Deps{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%s: %v", config, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	out := &served{host: host, source: host.Source(v1.DefaultSchedulerName)}
	out.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	select {
	case <-host.Ready():
	case err := <-ended:
		ended <- nil
		out.stop()
		t.Fatalf("host: %v", err)
	}
	return out
}

// explain asks about the cluster's pods.
func (s *served) explain(t *testing.T, c *cluster) []*scheduler.Explanation {
	t.Helper()
	s.generation += 1 << 32
	out, err := scheduler.Each(t.Context(), c.picture(t), c.Ask, map[string]scheduler.PolicySource{v1.DefaultSchedulerName: s.source},
		s.host.SetReplicaSource, s.generation, scheduler.ExplainOptions{})
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	return out
}
