package features

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TestGates: every gate of Kubernetes can be set to what is so, and to something else only if it switches something.
func TestGates(t *testing.T) {
	if len(All()) < 240 {
		t.Fatalf("%d gates", len(All()))
	}
	word := map[bool]string{true: "true", false: "false"}
	for _, g := range All() {
		if g.Name == "AllAlpha" || g.Name == "AllBeta" {
			continue
		}
		if err := Check(g.Name, word[g.Here]); err != nil {
			t.Errorf("%s cannot be set to what it is: %v", g.Name, err)
		}
		err := Check(g.Name, word[!g.Here])
		switch {
		case g.Settable && err != nil:
			t.Error(err)
		case !g.Settable && err == nil:
			t.Errorf("%s can be set to %t, and switches nothing", g.Name, !g.Here)
		case !g.Settable && !strings.HasPrefix(err.Error(), "cannot set feature gate "+g.Name+" to "):
			t.Error(err)
		}
		if g.Settable && g.Locked {
			t.Errorf("%s is locked, and can be set", g.Name)
		}
		if g.Here != g.Default && g.Why == "" {
			t.Errorf("%s is not as by default, without a reason", g.Name)
		}
	}
	for _, list := range []map[string]string{absent, always} {
		for name := range list {
			if g, ok := gates[name]; !ok || g.Here == g.Default {
				t.Errorf("%s is listed with a reason, and there is no such gate or it is as by default", name)
			}
		}
	}
}

// TestWords: what upstream refuses, is refused in its words.
func TestWords(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"Nonsense", "true", "unrecognized feature gate: Nonsense"},
		{strings.Repeat("x", 1<<20), "true", "unrecognized feature gate: its name is longer than any"},
		{"", "true", "unrecognized feature gate: "},
		{"SidecarContainers", "false", "cannot set feature gate SidecarContainers to false, feature is locked to true"},
		{"WatchList", "", `invalid value of WatchList=, err: strconv.ParseBool: parsing "": invalid syntax`},
		{"AllAlpha", "true", "cannot set feature gate AllAlpha to true: most gates of a stage"},
		{"AllBeta", "false", "cannot set feature gate AllBeta to false: most gates of a stage"},
		{"UserNamespacesSupport", "true", "cannot set feature gate UserNamespacesSupport to true: user namespaces of pods are not there"},
		{"GangScheduling", "true", "cannot set feature gate GangScheduling to true: what it stands for is not there"},
	} {
		if err := Check(tc.name, tc.value); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%.30s=%s: %v, want %s", tc.name, tc.value, err, tc.want)
		}
	}
	if err := Check("AllAlpha", "false"); err != nil {
		t.Error(err)
	}
}

// TestLevel: the libraries' gates, which are of a later version, have the defaults of the level that the API is of.
func TestLevel(t *testing.T) {
	seen := sets.New[string]()
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if spec.PreRelease == featuregate.PreAlpha {
			if utilfeature.DefaultFeatureGate.Enabled(name) {
				t.Errorf("%s is on, and is of a later version", name)
			}
			continue
		}
		g, ok := gates[string(name)]
		if !ok {
			t.Errorf("%s is not known to Kubernetes %s", name, Level)
			continue
		}
		seen.Insert(g.Name)
		if spec.Default != g.Default {
			t.Errorf("%s is %t by default in the library, and %t in Kubernetes %s", name, spec.Default, g.Default, Level)
		}
	}
	if seen.Len() < 30 {
		t.Errorf("the libraries have %d gates", seen.Len())
	}
	for _, name := range clientSwitches {
		if got, want := clientfeatures.FeatureGates().Enabled(clientfeatures.Feature(name)), gates[name].Default; got != want {
			t.Errorf("%s is %t by default in client-go, and %t in Kubernetes %s", name, got, want, Level)
		}
	}
}

// TestUse: what is set is what the libraries are told, and the metric tells; and it is as by default again after.
func TestUse(t *testing.T) {
	t.Cleanup(func() {
		if err := Use(nil); err != nil {
			t.Error(err)
		}
	})
	value := func(name string) float64 {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "kubernetes_feature_enabled" {
				continue
			}
			for _, m := range f.GetMetric() {
				if m.GetLabel()[0].GetValue() == name {
					return m.GetGauge().GetValue()
				}
			}
		}
		t.Errorf("no metric of %s", name)
		return -1
	}
	for _, round := range []struct {
		set          map[string]string
		cbor, lister bool
	}{
		{map[string]string{"CBORServingAndStorage": "true", "WatchListClient": "false", "KMSv1": "true"}, true, false},
		{nil, false, true},
	} {
		if err := Use(round.set); err != nil {
			t.Fatal(err)
		}
		if got := utilfeature.DefaultFeatureGate.Enabled("CBORServingAndStorage"); got != round.cbor || (value("CBORServingAndStorage") == 1) != round.cbor {
			t.Errorf("%v: CBORServingAndStorage is %t, the metric says %v", round.set, got, value("CBORServingAndStorage"))
		}
		if got := clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient); got != round.lister || (value("WatchListClient") == 1) != round.lister {
			t.Errorf("%v: WatchListClient is %t, the metric says %v", round.set, got, value("WatchListClient"))
		}
		if value("DynamicResourceAllocation") != 0 || value("SidecarContainers") != 1 {
			t.Error("the metric does not say what is so")
		}
	}
	if err := Use(map[string]string{"SidecarContainers": "false"}); err == nil {
		t.Error("a locked gate was set")
	}
}

// TestPage: the page about Kubernetes names the gates that can be set or are not as by default, and no others.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../KUBERNETES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n## Feature gates\n")
	if !ok {
		t.Fatal("no section of feature gates")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var want []string
	for _, g := range All() {
		if !g.Settable && g.Here == g.Default {
			continue
		}
		state, why := "off", g.Why
		if g.Here {
			state = "on"
		}
		if g.Settable {
			why = "a switch"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s | %s |", g.Name, state, why))
	}
	var have []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			have = append(have, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("KUBERNETES.md has\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}
