package kubescheduler

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/equality"

	"pintle.dev/pintle/kernel/config"
)

var update = flag.Bool("update", false, "write the goldens anew")

// check proves that a result is a sound configuration of this kernel.
func check(t *testing.T, text []byte) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// Files of kube-scheduler become sound configurations, with a note for each thing
// that has no counterpart.
func TestTranslate(t *testing.T) {
	for _, name := range []string{"default.yaml", "profiles.yaml", "policy.json", "policy-modern.yaml", "policy-defaults.yaml", "policy-ratio.yaml"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			tr, err := Translate(name, data)
			if err != nil {
				t.Fatal(err)
			}
			text, err := tr.YAML()
			if err != nil {
				t.Fatal(err)
			}
			cfg := check(t, text)
			if len(cfg.Scheduler.Profiles) == 0 {
				t.Error("no profile")
			}
			slices.SortFunc(tr.Notes, func(a, b config.Fault) int { return strings.Compare(a.Error(), b.Error()) })
			for _, n := range tr.Notes {
				text = append(text, "# "+n.Error()+"\n"...)
			}
			golden(t, name, text)
		})
	}
}

// The rest of an existing configuration stays, with its comments.
func TestInto(t *testing.T) {
	data, err := os.ReadFile("testdata/profiles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	existing, err := os.ReadFile("testdata/existing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Translate("profiles.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tr.Into("existing.yaml", existing)
	if err != nil {
		t.Fatal(err)
	}
	cfg := check(t, text)
	if cfg.API.Port != 7443 || cfg.Scheduler.Seed != 7 || len(cfg.Plugins.Bundles) != 3 || cfg.Plugins.Bundles[0].Name != "modern" || len(cfg.Scheduler.Profiles) != 2 {
		t.Errorf("%+v", cfg)
	}
	golden(t, "into.yaml", text)
	again, err := tr.Into("into.yaml", text)
	if err != nil || string(again) != string(text) {
		t.Errorf("a second time it is another (%v):\n%s", err, again)
	}
}

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// What cannot be translated is named with its line, and what to do.
func TestTranslateFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f:1: is empty"},
		{"not YAML", "a: [", "f:1: not YAML"},
		{"a list", "[]", "f:1: want a group of keys"},
		{"another kind", "kind: Pod\napiVersion: v1", `f:1: kind: "Pod"; want KubeSchedulerConfiguration`},
		{"old version", "apiVersion: kubescheduler.config.k8s.io/v1beta2\nkind: KubeSchedulerConfiguration", `f:1: apiVersion: "kubescheduler.config.k8s.io/v1beta2" is not served`},
		{"policy version", "apiVersion: v2\nkind: Policy", `f:1: apiVersion: "v2"; a Policy is of v1`},
		{"alias", head + "profiles: [&a {}, *a]", "aliases are not supported"},
		{"unknown field", head + "profiles:\n- schedulerNam: x", "f:4: profiles[0].schedulerNam: unknown field"},
		{"case", head + "Profiles: []", "f:3: Profiles: unknown field"},
		{"repeated field", head + "parallelism: 1\nparallelism: 2", "parallelism: duplicate field"},
		{"wrong type", head + "parallelism: many", "cannot unmarshal string into Go struct field"},
		{"parallelism", head + "parallelism: 0", "f:3: parallelism: Invalid value: 0: should be an integer value greater than zero"},
		{"percentage", head + "percentageOfNodesToScore: 101", "not in valid range [0-100]"},
		{"back-off", head + "podInitialBackoffSeconds: 20", "f:1: podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal"},
		{"no name", head + "profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: Required value"},
		{"same name", head + "profiles: [{schedulerName: a}, {schedulerName: a}]", "Duplicate value"},
		{"out of tree", head + "profiles:\n- plugins:\n    filter:\n      enabled:\n      - name: Coscheduling", `f:7: profiles[0].plugins.filter.enabled[0]: "Coscheduling" is no plugin of Kubernetes 1.36, and no bundle at hand has it: build it`},
		{"absent", head + "profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]", "GangScheduling is not there"},
		{"wrong point", head + "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]", `plugin "NodeName" does not extend score plugin`},
		{"twice", head + "profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}}]", `plugin "NodeName" already registered`},
		{"half", head + "profiles: [{plugins: {preScore: {disabled: [{name: NodeAffinity}]}}}]", "preScore of NodeAffinity is part of its score here: enable or disable both"},
		{"no binder", head + "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]", "DefaultBinder cannot be left out"},
		{"config twice", head + "profiles: [{pluginConfig: [{name: NodeName}, {name: NodeName}]}]", "repeated config for plugin NodeName"},
		{"config out of tree", head + "profiles: [{pluginConfig: [{name: X}]}]", `"X" is no plugin of Kubernetes 1.36`},
		{"args unknown", head + "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args:\n      addedAfinity: {}", "f:7: profiles[0].pluginConfig[0].args.addedAfinity: unknown field"},
		{"args type", head + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: NodeResourcesFitArgs}}]}]", "args for plugin NodeAffinity were not of type NodeAffinityArgs"},
		{"added affinity", head + "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near}]}]}}}}]}]", "operator: Unsupported value: \"Near\""},
		{"strategy", head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Best}}}]}]", "Unsupported value"},
		{"no shape", head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]}]", "must be specified when type is RequestedToCapacityRatio"},
		{"shape", head + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 11}]}}}}]}]", "not in valid range [0, 10]"},
		{"balanced weight", head + "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 2}]}}]}]", "must be 1"},
		{"hard weight", head + "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]", "not in valid range [0, 100]"},
		{"constraints", head + "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]", "when .defaultConstraints are not empty"},
		{"selector", head + "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: Maybe, labelSelector: {}}]}}]}]", "constraint must not define a selector"},
		{"bind time-out", head + "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]", "should not be a negative value"},
		{"preemption", head + "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}}]}]", "cannot be zero at the same time"},
		{"lock", head + "leaderElection: {resourceLock: endpoints}", `resourceLock value must be "leases"`},
		{"extender URL", head + "extenders: [{urlPrefix: 'localhost:80'}]", "is no URL of http or https"},
		{"extender weight", head + "extenders: [{urlPrefix: 'http://a', prioritizeVerb: p}]", "must have a positive weight applied to it"},
		{"two binders", head + "extenders: [{urlPrefix: 'http://a', bindVerb: b}, {urlPrefix: 'http://b', bindVerb: b}]", "only one extender can implement bind"},
		{"extender resource", head + "extenders: [{urlPrefix: 'http://a', managedResources: [{name: cpu}]}]", "is an invalid extended resource name"},
		{"extender key", head + "extenders: [{urlPrefix: 'http://a', tlsConfig: {keyData: AAAA}}]", "write them to a file"},
		{"unknown predicate", "kind: Policy\npredicates:\n- name: PodFitsMood", `f:3: predicates[0]: "PodFitsMood" is no predicate of Kubernetes`},
		{"unknown priority", "kind: Policy\npriorities: [{name: Mood, weight: 1}]", `"Mood" is no priority of Kubernetes`},
		{"no weight", "kind: Policy\npriorities: [{name: EqualPriority}]", "should have a positive weight applied to it"},
		{"policy field", "kind: Policy\npredicate: []", "f:2: predicate: unknown field"},
		{"service affinity", "kind: Policy\npredicates: [{name: A, argument: {serviceAffinity: {labels: [zone]}}}]", "give the pods a required pod affinity"},
		{"label preference", "kind: Policy\npriorities: [{name: A, weight: 1, argument: {labelPreference: {label: ssd, presence: true}}}]", "preferred node affinity to the label ssd"},
		{"both sets", "kind: Policy\npredicates: [{name: EvenPodsSpread}]\npriorities: [{name: ServiceSpreadingPriority, weight: 1}]", "ServiceSpreadingPriority is in the bundle classic alone"},
		{"two strategies", "kind: Policy\npriorities: [{name: LeastRequestedPriority, weight: 1}, {name: MostRequestedPriority, weight: 1}]", "a profile has one strategy"},
		{"hard weight of a policy", "kind: Policy\nhardPodAffinitySymmetricWeight: 0", "not in valid range [1, 100]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Translate("f", []byte(c.text))
			var faults config.Faults
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// Bind plugins are taken over: instead of DefaultBinder, and before it; alone it needs
// no word.
func TestBindPlugins(t *testing.T) {
	for name, c := range map[string]struct{ bind, want string }{
		"another instead": {"{disabled: [{name: DefaultBinder}], enabled: [{name: Ours}]}", "bind: [Ours]"},
		"all others":      {"{disabled: [{name: '*'}], enabled: [{name: Ours}, {name: Second}]}", "bind: [Ours, Second]"},
		"another before":  {"{disabled: [{name: '*'}], enabled: [{name: Ours}, {name: DefaultBinder}]}", "bind: [Ours, DefaultBinder]"},
		"by itself":       {"{enabled: [{name: DefaultBinder}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := Translate("f", []byte(head+"profiles: [{plugins: {bind: "+c.bind+"}}]"),
				Installed{Bundle: "binders", Name: "Ours", Kind: "bind"}, Installed{Bundle: "binders", Name: "Second", Kind: "bind"})
			if err != nil {
				t.Fatal(err)
			}
			out, err := tr.YAML()
			if err != nil {
				t.Fatal(err)
			}
			text := string(out)
			if c.want == "" && strings.Contains(text, "bind:") || !strings.Contains(text, c.want) {
				t.Errorf("want %q in\n%s", c.want, text)
			}
			if told := strings.Contains(fmt.Sprint(tr.Notes), "Ours is taken over as Ours (bind) of bundle binders"); told != strings.Contains(c.bind, "Ours") {
				t.Errorf("notes %v", tr.Notes)
			}
			if loaded := strings.Contains(text, "- name: binders"); loaded != strings.Contains(c.bind, "Ours") {
				t.Errorf("bundles of\n%s", text)
			}
		})
	}
}

// The default profile is upstream's: its order and its weights.
func TestDefaultProfile(t *testing.T) {
	tr, err := Translate("f", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	p := tr.out.Scheduler.Profiles[0]
	predicates := []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
		"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
	}
	priorities := []priority{
		{"TaintTolerationScore", 3}, {"NodeAffinityScore", 2}, {"NodeResourcesFitScore", 1}, {"PodTopologySpreadScore", 2}, {"InterPodAffinityScore", 2},
		{"NodeResourcesBalancedAllocation", 1}, {"ImageLocality", 1},
	}
	if !slices.Equal(p.Predicates, predicates) || !slices.Equal(p.Priorities, priorities) {
		t.Errorf("%v\n%v", p.Predicates, p.Priorities)
	}
}

// FuzzTranslate: whatever the file says, there is an answer, and what is
// translated without a fault is a sound configuration but for its figures.
func FuzzTranslate(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Translate("f", data)
		if err != nil {
			return
		}
		text, err := tr.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Into("f", text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

// configs/standalone.yaml is the default profile, as far as its bundle goes: the same
// plugins in the same order and with the same weights.
func TestModernConfiguration(t *testing.T) {
	cfg, err := config.Load(config.Source{File: "../../../configs/standalone.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Translate("f", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	text, err := tr.YAML()
	if err != nil {
		t.Fatal(err)
	}
	have, want := cfg.Scheduler.Profiles[0], check(t, text).Scheduler.Profiles[0]
	if !within(have.Predicates, want.Predicates) || !within(have.Priorities, want.Priorities) || !within(have.PreFilter, want.PreFilter) ||
		!within(have.PreEnqueue, want.PreEnqueue) || !within(have.PostFilter, want.PostFilter) || !within(have.Reserve, want.Reserve) || !within(have.PreBind, want.PreBind) {
		t.Errorf("%+v, want %+v", have, want)
	}
}

// within reports whether a list is another one with items left out.
func within[T comparable](list, whole []T) bool {
	for _, item := range whole {
		if len(list) > 0 && list[0] == item {
			list = list[1:]
		}
	}
	return len(list) == 0
}

// The names are those of the bundles' manifests.
func TestNames(t *testing.T) {
	kinds := map[string]map[string]string{}
	for _, set := range []string{modern, classic, entrance, writing} {
		data, err := os.ReadFile("../../../plugins/" + set + "/manifest.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Plugins []struct{ Name, Kind string }
		}
		if err := yaml.Unmarshal(data, &manifest); err != nil {
			t.Fatal(err)
		}
		kinds[set] = map[string]string{}
		for _, p := range manifest.Plugins {
			kinds[set][p.Name] = p.Kind
		}
	}
	kindAt := map[point]string{preEnqueue: "pre-enqueue", preFilter: "pre-filter", filter: "predicate", postFilter: "post-filter", score: "priority", reserve: "reserve", preBind: "pre-bind"}
	for i := range kubernetes {
		for at, name := range kubernetes[i].at {
			if have := cmp.Or(kinds[modern][name], kinds[writing][name]); name != "" && have != kindAt[at] {
				t.Errorf("%s at %s is %q in the manifest, want %q", name, at, have, kindAt[at])
			}
		}
	}
	for kind, table := range map[string]map[string]old{"predicate": oldPredicates, "priority": oldPriorities} {
		for of, o := range table {
			for set, names := range map[string][]string{classic: o.classic, modern: o.modern} {
				for _, name := range names {
					if kinds[set][name] != kind {
						t.Errorf("%s: bundle %s has %s as %q, want %q", of, set, name, kinds[set][name], kind)
					}
				}
			}
		}
	}
	if kinds[entrance]["SchedulingGates"] == "" {
		t.Errorf("bundle %s has no SchedulingGates", entrance)
	}
}

// What runs is described so that the description translates to the same again.
func TestDescribe(t *testing.T) {
	for _, name := range []string{"default.yaml", "profiles.yaml"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		tr, err := Translate(name, data)
		if err != nil {
			t.Fatal(err)
		}
		text, err := tr.YAML()
		if err != nil {
			t.Fatal(err)
		}
		cfg := check(t, text)
		shared := map[string]json.RawMessage{}
		if raw := cfg.Plugins.Bundles[0].Config; len(raw) > 0 {
			if err := json.Unmarshal(raw, &shared); err != nil {
				t.Fatal(err)
			}
		}
		described, err := json.Marshal(Describe(&cfg.Scheduler, &cfg.Election, shared))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Translate(name, described)
		if err != nil {
			t.Fatalf("%v\n%s", err, described)
		}
		if text, err = again.YAML(); err != nil {
			t.Fatal(err)
		}
		now := check(t, text)
		if !equality.Semantic.DeepEqual(now.Scheduler.Profiles, cfg.Scheduler.Profiles) || now.Scheduler.InitialBackoff != cfg.Scheduler.InitialBackoff || now.Election != cfg.Election {
			t.Errorf("%s: %+v\nwas %+v\n%s", name, now.Scheduler, cfg.Scheduler, described)
		}
	}
}
