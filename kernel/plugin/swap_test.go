package plugin

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// A changed configuration reaches the running guest between two decisions: not
// before the new policy is prepared, without another guest, and one that the
// plugin refuses changes nothing.
func TestConfigureRunningGuest(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport)
			cfg.Bundles[0].Config = []byte(`{"LeastCPU": 1}`)
			source := &testSource{}
			source.set(replica(1, 1))
			h := runHost(t, cfg, source)
			score := func(p contractv1.Policy) int64 {
				t.Helper()
				out := make([]int64, 1)
				if err := p.Score(t.Context(), 0, 7, []uint32{0}, out); err != nil {
					t.Fatal(err)
				}
				return out[0]
			}
			before := h.Source("s").Policy()
			if err := before.Apply(t.Context(), replica(1, 1)); err != nil {
				t.Fatal(err)
			}
			waitPrepared(t, before)
			guests := h.present().units[0].started
			for _, c := range []struct {
				config string
				factor int64
				fault  string
			}{{`{"LeastCPU": 3}`, 3, ""}, {`{"LeastCPU": "many"}`, 3, "configure LeastCPU"}, {`{"LeastCPU": 5}`, 5, ""}} {
				cfg.Bundles = []BundleConfig{{Name: "guest", Transport: transport, Config: []byte(c.config)}}
				was := score(before)
				done := make(chan error, 1)
				go func() { done <- h.Reconfigure(cfg) }()
				// The scheduler asks on until it takes up the next policy.
				next := awaitOther(t, h, before)
				if got := score(before); got != was {
					t.Errorf("score %d before the switch, want %d", got, was)
				}
				next.(contractv1.Preparing).Prepared(t.Context())
				err := <-done
				if c.fault == "" && err != nil || c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)) {
					t.Fatalf("%s: %v, want %q", c.config, err, c.fault)
				}
				before = h.Source("s").Policy()
				if err := before.Apply(t.Context(), replica(1, 1)); err != nil {
					t.Fatal(err)
				}
				waitPrepared(t, before)
				if got := score(before); got != c.factor*4000+1 {
					t.Errorf("%s: score %d, want %d", c.config, got, c.factor*4000+1)
				}
			}
			if now := h.present().units[0].started; now != guests {
				t.Errorf("%d guests were started, want %d: the running one is told", now, guests)
			}
		})
	}
}

func awaitOther(t *testing.T, h *Host, before contractv1.Policy) contractv1.Policy {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if p := h.Source("s").Policy(); p != nil && p != before {
			return p
		}
	}
	t.Fatal("no other policy")
	return nil
}

func waitPrepared(t *testing.T, p contractv1.Policy) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if p.(contractv1.Preparing).Prepared(t.Context()) {
			return
		}
	}
	t.Fatal("the policy is never prepared")
}

// The configuration file and an object are merged field by field.
func TestMerge(t *testing.T) {
	spec := func(weight int64, enabled bool, config string) *v1alpha1.PluginSpec {
		s := &v1alpha1.PluginSpec{Weight: ptr.To(weight), Enabled: ptr.To(enabled)}
		if config != "" {
			s.Config = &runtime.RawExtension{Raw: []byte(config)}
		}
		return s
	}
	object := func(remembers *v1alpha1.PluginSpec, s *v1alpha1.PluginSpec, own bool) *v1alpha1.Plugin {
		o := &v1alpha1.Plugin{Spec: *s, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{managedLabel: managedByHost}}}
		if own {
			o.Labels = nil
		}
		if remembers != nil {
			o.Annotations = map[string]string{v1alpha1.ConfiguredAnnotation: fieldsOf(remembers).annotation()}
		}
		return o
	}
	long := `{"a":"` + strings.Repeat("x", 2*rememberedBytes) + `"}`
	for _, c := range []struct {
		name string
		now  *v1alpha1.PluginSpec
		o    *v1alpha1.Plugin
		want *v1alpha1.PluginSpec
	}{
		{"no object", spec(1, true, ""), nil, spec(1, true, "")},
		{"nothing changed", spec(1, true, ""), object(spec(1, true, ""), spec(1, true, ""), false), spec(1, true, "")},
		{"an operator changed the weight", spec(1, true, ""), object(spec(1, true, ""), spec(9, true, ""), false), spec(9, true, "")},
		{"the configuration changed the weight, an operator the rest", spec(2, true, ""), object(spec(1, true, ""), spec(9, false, "{}"), false), spec(2, false, "{}")},
		{"white space and order are no change", spec(1, true, `{"b": 1, "a": 2}`), object(spec(1, true, `{"a":2,"b":1}`), spec(1, true, `{"c":3}`), false), spec(1, true, `{"c":3}`)},
		{"a long configuration is remembered by its digest", spec(1, true, long), object(spec(1, true, long), spec(1, true, `{}`), false), spec(1, true, `{}`)},
		{"a host without memory made it", spec(1, true, ""), object(nil, spec(9, false, ""), false), spec(1, true, "")},
		{"somebody's own", spec(1, true, "{}"), object(nil, spec(9, false, ""), true), spec(9, false, "{}")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := merge(fieldsOf(c.now), c.o), fieldsOf(c.want); !fieldsEqual(got, want) {
				t.Errorf("got %s, want %s", text(got), text(want))
			}
		})
	}
}

func text(f fields) string {
	out, _ := json.Marshal(f)
	return string(out)
}

// A configuration is checked against the schema that the manifest declares, with
// the path of each fault; a schema that could not be checked is refused.
func TestConfigSchema(t *testing.T) {
	parsed := func(schema string) (*manifest.Manifest, error) {
		return manifest.Parse("m.yaml", []byte("apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: m\nversion: 1.0.0\nplugins:\n"+
			"- name: P\n  kind: predicate\n  configSchema: "+schema+"\n"))
	}
	m, err := parsed(`{type: object, additionalProperties: false, required: [limit], properties: {limit: {type: integer, minimum: 1}, names: {type: array, items: {type: string}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string][]string{
		`{"limit":3,"names":["a"]}`:            nil,
		`{"limit":0}`:                          {"config.P.limit: Invalid value: 0: limit in body should be greater than or equal to 1"},
		`{}`:                                   {"config.P.limit: Required value"},
		`{"limit":1,"names":["a",2],"lmit":2}`: {"config.P.names[1]: Invalid value", "forbidden property"},
	} {
		err := checkConfigs(&manifest.Bundle{Manifest: m}, &BundleConfig{Name: "m", Config: []byte(`{"P":` + config + `}`)})
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v", config, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v\nwant %q", config, err, w)
			}
		}
	}
	for schema, want := range map[string]string{
		`{$ref: "#/x"}`:                 "m.yaml:8: plugins.0.configSchema: $ref: this keyword is not checked",
		`{type: thing}`:                 "type: thing; want one of object",
		`{properties: {a: {const: 1}}}`: "properties.a.const: this keyword is not checked",
		`{pattern: "("}`:                "is not a regular expression",
		`../outside.json`:               "want a path inside the bundle's folder",
		`{items: ` + strings.Repeat(`{items: `, 40) + `{}` + strings.Repeat(`}`, 41): "levels deep",
	} {
		if _, err := parsed(schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

// What is said of a bundle by one of its plugins counts for all of it, and a
// digest of the former version is dropped with it.
func TestWishes(t *testing.T) {
	p := &plan{seeds: map[string]fields{"A": {}, "B": {}}, specs: map[string]*v1alpha1.PluginSpec{"A": {}, "B": {}}}
	object := func(name, version, digest string) *v1alpha1.Plugin {
		return &v1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PluginSpec{Bundle: "b", Version: version, Digest: digest}}
	}
	w := (&wishes{}).with(p, change{name: "A", old: object("A", "1", "sha256:1"), now: object("A", "2", "sha256:1")})
	if got := text(w.wide["b"]); got != `{"version":"2"}` {
		t.Errorf("after an upgrade: %s", got)
	}
	// The other plugin's object still says the former version, which is no news.
	w = w.with(p, change{name: "B", old: object("B", "1", "sha256:1"), now: object("B", "1", "sha256:1")})
	if got := text(w.wide["b"]); got != `{"version":"2"}` {
		t.Errorf("after an object that says nothing new: %s", got)
	}
	w = w.with(p, change{name: "B", old: object("B", "1", "")})
	if len(w.wide) != 0 || slices.Contains([]bool{w.objects["B"] != nil}, true) {
		t.Errorf("after an object was deleted: %v", w.wide)
	}
}

// A schema that requires something is held against plugins that are to be used without
// a configuration, and against no others.
func TestRequiredConfiguration(t *testing.T) {
	text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: m\nversion: 1.0.0\nplugins:\n" +
		"- {name: P, kind: predicate, configSchema: {type: object, required: [limit]}}\n- {name: Q, kind: predicate, configSchema: {type: object}}\n"
	m, err := manifest.Parse("m.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unit{bundle: &manifest.Bundle{Manifest: m}}
	spec := func(enabled bool, config string) *v1alpha1.PluginSpec {
		s := &v1alpha1.PluginSpec{Enabled: ptr.To(enabled)}
		if config != "" {
			s.Config = &runtime.RawExtension{Raw: []byte(config)}
		}
		return s
	}
	for name, c := range map[string]struct {
		p       *v1alpha1.PluginSpec
		profile string
		refused bool
	}{
		"in use without one":        {spec(true, ""), "", true},
		"in use with one":           {spec(true, `{"limit":1}`), "", false},
		"configured in a profile":   {spec(true, ""), `{"limit":1}`, false},
		"installed, and not in use": {spec(false, ""), "", false},
	} {
		profile := Profile{SchedulerName: "s", Config: map[string]json.RawMessage{}}
		if c.profile != "" {
			profile.Config["P"] = json.RawMessage(c.profile)
		}
		p := &plan{base: &Config{Profiles: []Profile{profile}}, specs: map[string]*v1alpha1.PluginSpec{"P": c.p, "Q": spec(true, "")}}
		err := p.unconfigured(u)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "config.P.limit: Required value") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is said of a candidate ends with it, and outlasts a moment without news.
func TestLastShadow(t *testing.T) {
	was, now := &v1alpha1.PluginShadowStatus{Decisions: 1}, &v1alpha1.PluginShadowStatus{Decisions: 2}
	o := &v1alpha1.Plugin{Spec: v1alpha1.PluginSpec{Shadow: &v1alpha1.PluginShadowSpec{Version: "2"}}, Status: v1alpha1.PluginStatus{Shadow: was}}
	if got := lastShadow(o, now); got != now {
		t.Errorf("%+v", got)
	}
	if got := lastShadow(o, nil); got != was {
		t.Errorf("without news: %+v", got)
	}
	o.Spec.Shadow = nil
	if got := lastShadow(o, nil); got != nil {
		t.Errorf("after its end: %+v", got)
	}
}
