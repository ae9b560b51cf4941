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

	"go.yaml.in/yaml/v3"
	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/sdk"
)

// bundle is where the modern set lies, from here.
const bundle = "modern"

// filters are kube-scheduler's filter plugins in the order of its default profile;
// scores its score plugins with their weights. The plugin of declared features of
// nodes is not in the modern set, and devices are refused by DynamicResources.
// VolumeBinding scores only where the feature gate StorageCapacityScoring is on,
// which 1.36 has off.
var (
	filters = []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
		"NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
	}
	scores = []plugin.WeightedPriority{
		{Name: "TaintToleration", Weight: 3}, {Name: "NodeAffinity", Weight: 2}, {Name: "NodeResourcesFit", Weight: 1},
		{Name: "PodTopologySpread", Weight: 2}, {Name: "InterPodAffinity", Weight: 2},
		{Name: "NodeResourcesBalancedAllocation", Weight: 1}, {Name: "ImageLocality", Weight: 1},
	}
)

// set is the bundle, and the profile of configs/standalone.yaml.
type set struct {
	directory string
	modules   *modulecache.Cache
	shipped   plugin.Profile
	// predicates and priorities are the names that plugins have in the bundle, by
	// those of kube-scheduler, where a plugin is both under one name.
	predicates map[string]string
	priorities map[string]string
}

// build makes a folder with the bundle's module.
func build(t *testing.T) *set {
	t.Helper()
	out := &set{directory: t.TempDir(), modules: modulecache.Of(filepath.Join("..", "..", "build", "modules"), nil), shipped: shipped(t), predicates: map[string]string{}, priorities: map[string]string{}}
	for _, name := range out.shipped.Predicates {
		out.predicates[name] = name
	}
	for _, p := range out.shipped.Priorities {
		out.priorities[strings.TrimSuffix(p.Name, "Score")] = p.Name
	}
	dir := filepath.Join(out.directory, bundle)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("../../plugins", bundle, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifest.File), text, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-o", filepath.Join(dir, bundle+".wasm"), "pintle.dev/pintle/plugins/"+bundle)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return out
}

// shipped reads the profile of configs/standalone.yaml.
func shipped(t *testing.T) plugin.Profile {
	t.Helper()
	data, err := os.ReadFile("../../configs/standalone.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Scheduler struct {
			Profiles []struct {
				SchedulerName string                    `yaml:"schedulerName"`
				Predicates    []string                  `yaml:"predicates"`
				Priorities    []plugin.WeightedPriority `yaml:"priorities"`
				PreEnqueue    []string                  `yaml:"preEnqueue"`
				PreFilter     []string                  `yaml:"preFilter"`
				PreScore      []string                  `yaml:"preScore"`
				PostFilter    []string                  `yaml:"postFilter"`
			} `yaml:"profiles"`
		} `yaml:"scheduler"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Scheduler.Profiles) != 1 {
		t.Fatalf("configs/standalone.yaml has %d profiles", len(file.Scheduler.Profiles))
	}
	p := &file.Scheduler.Profiles[0]
	return plugin.Profile{SchedulerName: p.SchedulerName, Predicates: p.Predicates, Priorities: p.Priorities, Points: map[string][]string{
		sdk.KindPreEnqueue: p.PreEnqueue, sdk.KindPreFilter: p.PreFilter, sdk.KindPreScore: p.PreScore, sdk.KindPostFilter: p.PostFilter,
	}}
}

// configs/standalone.yaml has kube-scheduler's plugins in its order and with its
// weights.
func TestShippedProfileIsKubeSchedulers(t *testing.T) {
	p := shipped(t)
	own := slices.DeleteFunc(slices.Clone(p.Predicates), func(n string) bool { return n == "DynamicResources" })
	if !slices.Equal(own, filters) {
		t.Errorf("predicates %v, want %v", own, filters)
	}
	for i := range p.Priorities {
		p.Priorities[i].Name = strings.TrimSuffix(p.Priorities[i].Name, "Score")
	}
	if !slices.Equal(p.Priorities, scores) {
		t.Errorf("priorities %v, want %v", p.Priorities, scores)
	}
}

// profile is the default profile with the cluster's configuration.
func (s *set) profile(config []pluginConfig) plugin.Profile {
	p := s.shipped
	p.Config = map[string]json.RawMessage{}
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
		Directories: []string{s.directory}, Modules: s.modules, StartTimeout: 2 * time.Minute, CallTimeout: 30 * time.Second,
		Bundles: []plugin.BundleConfig{{Name: bundle, Transport: manifest.TransportWASM}}, Profiles: []plugin.Profile{s.profile(config)},
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
func (s *served) explain(t *testing.T, c *cluster) []*explain.Explanation {
	t.Helper()
	s.generation += 1 << 32
	out, err := scheduler.Each(t.Context(), c.picture(t), c.Ask, map[string]scheduler.PolicySource{v1.DefaultSchedulerName: s.source},
		s.host.SetReplicaSource, s.generation, explain.Options{})
	if err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	return out
}
