package kubescheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/config"
)

// atHand are plugins of other people's bundles.
var atHand = []Installed{
	{Bundle: "cosched", Name: "CoschedulingQueueSort", Kind: "queue-sort"},
	{Bundle: "cosched", Name: "Coscheduling", Kind: "predicate", Configured: true},
	{Bundle: "cosched", Name: "CoschedulingPostFilter", Kind: "post-filter"},
	{Bundle: "cosched", Name: "CoschedulingPermit", Kind: "permit", Configured: true},
	{Bundle: "cosched", Name: "CoschedulingReserve", Kind: "reserve"},
	{Bundle: "cosched", Name: "CoschedulingPostBind", Kind: "post-bind"},
	{Bundle: "trimaran", Name: "LoadAware", Kind: "priority"},
	{Bundle: "trimaran", Name: "LoadAwarePreScore", Kind: "pre-score"},
	{Bundle: "older", Name: "CoschedulingPermit", Kind: "permit"},
	{Bundle: "classic", Name: "PodFitsHost", Kind: "predicate"},
}

// Plugins that Kubernetes does not have are taken over at every point where one is
// installed by their name, in upstream's order, with weights and configuration.
func TestInstalledPlugins(t *testing.T) {
	predicates := []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits",
		"VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
	}
	const sorts = "queueSort: {disabled: [{name: '*'}], enabled: [{name: Coscheduling}]}"
	for _, c := range []struct {
		name, plugins, config string
		check                 func(p *profile, all *output) string
	}{
		{"at one point", "permit: {enabled: [{name: Coscheduling}]}", "", func(p *profile, all *output) string {
			if !slices.Equal(p.Permit, []string{"CoschedulingPermit"}) || !slices.Equal(p.Predicates, predicates) || p.QueueSort != "" {
				return "at permit alone"
			}
			if len(all.Plugins.Bundles) != 3 || all.Plugins.Bundles[2].Name != "cosched" {
				return "the bundle with most of its parts"
			}
			return ""
		}},
		{"at every point", "multiPoint: {enabled: [{name: Coscheduling}]}, queueSort: {disabled: [{name: PrioritySort}]}", "", func(p *profile, _ *output) string {
			if p.QueueSort != "CoschedulingQueueSort" || !slices.Equal(p.Predicates, append(slices.Clone(predicates), "Coscheduling")) ||
				!slices.Equal(p.PostFilter, []string{"DefaultPreemption", "CoschedulingPostFilter"}) || !slices.Equal(p.Reserve, []string{"VolumeBindingReserve", "CoschedulingReserve"}) ||
				!slices.Equal(p.Permit, []string{"CoschedulingPermit"}) || !slices.Equal(p.PostBind, []string{"CoschedulingPostBind"}) || len(p.Bind) != 0 {
				return "all its parts, behind the default ones"
			}
			return ""
		}},
		{"not where it is disabled", "multiPoint: {enabled: [{name: Coscheduling}]}, " + sorts + ", postFilter: {disabled: [{name: Coscheduling}]}, reserve: {disabled: [{name: '*'}]}", "", func(p *profile, _ *output) string {
			if !slices.Equal(p.PostFilter, []string{"DefaultPreemption"}) || len(p.Reserve) != 0 || len(p.Permit) != 1 {
				return "neither post-filter nor reserve"
			}
			return ""
		}},
		{"the order that a point names goes first", "multiPoint: {enabled: [{name: Coscheduling}]}, " + sorts + ", filter: {enabled: [{name: Coscheduling}, {name: NodePorts}]}", "", func(p *profile, _ *output) string {
			want := append([]string{"Coscheduling", "NodePorts"}, slices.DeleteFunc(slices.Clone(predicates), func(n string) bool { return n == "NodePorts" })...)
			if !slices.Equal(p.Predicates, want) {
				return fmt.Sprintf("predicates %v", want)
			}
			return ""
		}},
		{"alone", "multiPoint: {disabled: [{name: '*'}], enabled: [{name: LoadAware}, {name: PrioritySort}, {name: DefaultBinder}]}", "", func(p *profile, _ *output) string {
			if len(p.Predicates) != 0 || !slices.Equal(p.PreScore, []string{"LoadAwarePreScore"}) || !slices.Equal(p.Priorities, []priority{{"LoadAware", 1}}) {
				return "nothing else"
			}
			return ""
		}},
		{"weight of the point", "multiPoint: {enabled: [{name: LoadAware, weight: 3}]}, score: {enabled: [{name: LoadAware, weight: 7}]}", "", func(p *profile, _ *output) string {
			if p.Priorities[0] != (priority{"LoadAware", 7}) {
				return "first, with weight 7"
			}
			return ""
		}},
		{"weight of all points", "multiPoint: {enabled: [{name: LoadAware, weight: 3}]}", "", func(p *profile, _ *output) string {
			if p.Priorities[len(p.Priorities)-1] != (priority{"LoadAware", 3}) {
				return "last, with weight 3"
			}
			return ""
		}},
		{"configuration", "filter: {enabled: [{name: Coscheduling}]}, permit: {enabled: [{name: Coscheduling}]}, reserve: {enabled: [{name: Coscheduling}]}",
			"[{name: Coscheduling, args: {apiVersion: example.com/v1, kind: CoschedulingArgs, permitWaitingTimeSeconds: 10}}]", func(p *profile, all *output) string {
				b := all.Plugins.Bundles[2]
				if len(b.Config) != 2 || fmt.Sprint(b.Config["Coscheduling"]) != "map[permitWaitingTimeSeconds:10]" || fmt.Sprint(b.Config["CoschedulingPermit"]) != "map[permitWaitingTimeSeconds:10]" || p.Config != nil {
					return "the parts that take it have it"
				}
				return ""
			}},
		{"configuration of one that declares none", "score: {enabled: [{name: LoadAware}]}", "[{name: LoadAware, args: {target: 40}}]", func(p *profile, all *output) string {
			if b := all.Plugins.Bundles[2]; fmt.Sprint(b.Config["LoadAware"]) != "map[target:40]" || len(b.Config) != 1 {
				return "LoadAware is configured, and LoadAwarePreScore is in no profile"
			}
			return ""
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := head + "profiles: [{plugins: {" + c.plugins + "}"
			if c.config != "" {
				text += ", pluginConfig: " + c.config
			}
			tr, err := Translate("f", []byte(text+"}]"), atHand...)
			if err != nil {
				t.Fatal(err)
			}
			out, err := tr.YAML()
			if err != nil {
				t.Fatal(err)
			}
			check(t, out)
			if want := c.check(&tr.out.Scheduler.Profiles[0], &tr.out); want != "" {
				t.Errorf("want %s in\n%s", want, out)
			}
		})
	}
}

// What differs from profile to profile is configured there.
func TestInstalledPluginsAreConfiguredApart(t *testing.T) {
	one := func(name, seconds string) string {
		return "{schedulerName: " + name + ", plugins: {permit: {enabled: [{name: Coscheduling}]}}, pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: " + seconds + "}}]}"
	}
	tr, err := Translate("f", []byte(head+"profiles: ["+one("a", "1")+", "+one("b", "2")+"]"), atHand...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"map[permitWaitingTimeSeconds:1]", "map[permitWaitingTimeSeconds:2]"} {
		if got := fmt.Sprint(tr.out.Scheduler.Profiles[i].Config["CoschedulingPermit"]); got != want {
			t.Errorf("profile %d: %s, want %s", i, got, want)
		}
	}
}

// What nobody has, or has no part for, is refused with what to do.
func TestNotInstalled(t *testing.T) {
	for _, c := range []struct{ name, profile, want string }{
		{"nobody", "plugins: {permit: {enabled: [{name: Gangway}]}}", `profiles[0].plugins.permit.enabled[0]: "Gangway" is no plugin of Kubernetes 1.36, and no bundle at hand has it`},
		{"at all points", "plugins: {multiPoint: {enabled: [{name: Gangway}]}}", `profiles[0].plugins.multiPoint.enabled[0]: "Gangway" is no plugin`},
		{"binds", "plugins: {bind: {enabled: [{name: Gangway}]}}", `profiles[0].plugins.bind.enabled[0]: "Gangway" is no plugin`},
		{"configuration", "pluginConfig: [{name: Gangway, args: {}}]", `profiles[0].pluginConfig[0]: "Gangway" is no plugin`},
		{"not there", "plugins: {score: {enabled: [{name: Coscheduling}]}}", `plugin "Coscheduling" does not extend score plugin`},
		{"half", "plugins: {preFilter: {enabled: [{name: Coscheduling}]}}", "preFilter of Coscheduling is part of its filter here: enable both"},
		{"twice", "plugins: {permit: {enabled: [{name: Coscheduling}, {name: Coscheduling}]}}", `plugin "Coscheduling" already registered`},
		{"two that sort", "plugins: {queueSort: {enabled: [{name: Coscheduling}]}}", "only one queue sort plugin can be enabled"},
		{"what ships is known by other names", "plugins: {filter: {enabled: [{name: PodFitsHost}]}}", `"PodFitsHost" is no plugin of Kubernetes`},
		{"no group", "plugins: {permit: {enabled: [{name: Coscheduling}]}}, pluginConfig: [{name: Coscheduling, args: [1]}]", "want a group of keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Translate("f", []byte(head+"profiles: [{"+c.profile+"}]"), atHand...)
			var faults config.Faults
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
