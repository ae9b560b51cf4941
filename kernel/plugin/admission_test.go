package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// reviewing is a copy of the bundle greeter whose manifest says other things of
// what it reviews.
func reviewing(t *testing.T, before, after string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "greeter"), os.DirFS(filepath.Join(catalog, "greeter"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "greeter", manifest.File)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(before).FindIndex(data)
	if at == nil {
		t.Fatalf("%s is not in\n%s", before, data)
	}
	if err := os.WriteFile(file, slices.Concat(data[:at[0]], []byte(after), data[at[1]:]), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A plugin that reviews more than its manifest asks for does not run, nor is its
// bundle sealed: nobody granted it that.
func TestReviewsMoreThanAsked(t *testing.T) {
	const pods = `resources: \[v1/pods\]`
	for name, test := range map[string]struct{ before, after, want string }{
		"another resource":     {pods, "resources: [v1/configmaps]", "label reviews CREATE of v1/pods, which its manifest does not ask for"},
		"fewer operations":     {`operations: \[CREATE, UPDATE\]`, "operations: [CREATE]", "label reviews UPDATE of v1/pods, which its manifest does not ask for"},
		"the other phase":      {"phase: mutating", "phase: validating", `label is validating in the manifest and "mutating" in the artefact`},
		"nothing":              {`admissionRules:\s+- operations: \[CREATE, UPDATE\]\s+` + pods, "normalize: ''", "admissionRules: missing; name the requests"},
		"what is no operation": {`operations: \[CREATE, UPDATE\]`, "operations: ['*']", `operation "*"; want one of CREATE`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
				dir := reviewing(t, test.before, test.after)
				cfg := testConfig(t, transport)
				cfg.Directories, cfg.Bundles = []string{dir}, []BundleConfig{{Name: "greeter", Transport: transport}}
				cfg.Profiles, cfg.Admission = nil, []string{"label"} // what is not in use does not start
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				h, err := New(cfg, Deps{})
				if err == nil {
					err = h.Run(ctx)
				}
				cancel()
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("as a %s it starts: %v, want %q", transport, err, test.want)
				}
				if err := seal.Seal(t.Context(), filepath.Join(dir, "greeter")); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("it is sealed: %v, want %q", err, test.want)
				}
			}
		})
	}
	// Who asks for more than is reviewed, as for any resource, gets what it reviews.
	dir := reviewing(t, pods, `resources: ["*/*/*"]`)
	cfg := testConfig(t, manifest.TransportWASM)
	cfg.Directories, cfg.Bundles, cfg.Profiles, cfg.Admission = []string{dir}, []BundleConfig{{Name: "greeter", Transport: manifest.TransportWASM}}, nil, []string{"label"}
	list, _ := runHost(t, cfg, nil).Admissions()
	if !list[0].Matches("CREATE", "", "v1", "pods", "") || list[0].Matches("CREATE", "", "v1", "configmaps", "") {
		t.Error("label is for pods alone")
	}
}

// An operator takes requests away, and gives none that the manifest does not ask for.
func TestAdmissionRulesOfAnObject(t *testing.T) {
	rule := func(operation string, resources ...string) v1alpha1.PluginAdmissionRule {
		return v1alpha1.PluginAdmissionRule{Operations: []string{operation}, Resources: resources}
	}
	for name, test := range map[string]struct {
		granted        []v1alpha1.PluginAdmissionRule
		create, update bool
	}{
		"all":       {nil, true, true},
		"less":      {[]v1alpha1.PluginAdmissionRule{rule("CREATE", "v1/pods")}, true, false},
		"any":       {[]v1alpha1.PluginAdmissionRule{rule("UPDATE", "*/*/*")}, false, true},
		"something": {[]v1alpha1.PluginAdmissionRule{rule("CREATE", "v1/secrets", "v1/configmaps")}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, manifest.TransportWASM)
			cfg.Bundles, cfg.Profiles, cfg.Admission = []BundleConfig{{Name: "greeter", Transport: manifest.TransportWASM}}, nil, []string{"label"}
			h := runHost(t, cfg, nil)
			p := h.present()
			p.specs["label"].AdmissionRules = test.granted
			list, err := h.newAdmissions(p)
			if err != nil {
				t.Fatal(err)
			}
			for _, ask := range []struct {
				operation, resource string
				want                bool
			}{{"CREATE", "pods", test.create}, {"UPDATE", "pods", test.update}, {"CREATE", "secrets", false}, {"CREATE", "configmaps", false}} {
				if got := list[0].Matches(ask.operation, "", "v1", ask.resource, ""); got != ask.want {
					t.Errorf("asked about %s of %s: %v", ask.operation, ask.resource, got)
				}
			}
		})
	}
	object := &v1alpha1.PluginSpec{AdmissionRules: []v1alpha1.PluginAdmissionRule{rule("create", "v1/pods")}}
	if faults := vetAdmissionRules(&manifest.Entry{Kind: sdk.KindAdmission}, object); len(faults) != 1 || !strings.Contains(faults[0].Error(), "spec.admissionRules[0]") {
		t.Errorf("faults %v", faults)
	}
	if faults := vetAdmissionRules(&manifest.Entry{Kind: sdk.KindPredicate}, object); len(faults) != 1 {
		t.Errorf("faults of a predicate %v", faults)
	}
}

// What places pods beside a kernel, such as a simulation, has no admission plugins,
// whose bundles it does not load.
func TestPlacingBesideAdmission(t *testing.T) {
	cfg := testConfig(t, manifest.TransportWASM, "FitsCPU")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "greeter", Transport: manifest.TransportWASM})
	cfg.Admission = []string{"label"}
	h, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for name, beside := range map[string]Config{"Scheduling": h.Scheduling(), "Choosing": h.Choosing()} {
		if _, err := New(beside, Deps{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(beside.Bundles) != 1 {
			t.Errorf("%s has %d bundles, want the one that places", name, len(beside.Bundles))
		}
	}
}

// Mutators and validators answer alike as a module and as a process, and
// survive what they do wrong.
func TestAdmission(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			cfg := testConfig(t, transport)
			brieflyAsked(&cfg) // a review may last ten times as long
			cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport}}
			cfg.Profiles, cfg.Admission = nil, []string{"label", "refuse"}
			h := runHost(t, cfg, nil)
			list, ok := h.Admissions()
			if !ok || len(list) != 2 || !list[0].Mutates() || list[1].Mutates() {
				t.Fatalf("admissions %v, %v", list, ok)
			}
			label, refuse := list[0], list[1]
			if !label.Matches("CREATE", "", "v1", "pods", "") || label.Matches("DELETE", "", "v1", "pods", "") {
				t.Error("label is for creates and updates of pods")
			}
			ask := func(a *Admission, image string) (admissionv1.AdmissionResponse, error) {
				var response admissionv1.AdmissionResponse
				request := fmt.Sprintf(`{"uid":"u","operation":"CREATE","userInfo":{"username":"ann"},"object":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"image":%q}]}}}`, image)
				data, err := a.Review(t.Context(), []byte(request))
				if err == nil {
					err = json.Unmarshal(data, &response)
				}
				return response, err
			}
			got, err := ask(label, "fine")
			if want := `[{"op":"add","path":"/metadata/labels/team","value":"ann"}]`; err != nil || string(got.Patch) != want || len(got.Warnings) != 1 {
				t.Errorf("label: %v, %+v; want patch %s", err, got, want)
			}
			if got, err = ask(refuse, "fine"); err != nil || !got.Allowed {
				t.Errorf("refuse of what is fine: %v, %+v", err, got)
			}
			if got, err = ask(refuse, "latest"); err != nil || got.Allowed || got.Result.Code != 403 || got.Result.Message != "images must not be latest" {
				t.Errorf("refuse of latest: %v, %+v", err, got)
			}
			if got, err = ask(refuse, "teapot"); err != nil || got.Allowed || got.Result.Code != 418 {
				t.Errorf("refuse of a teapot: %v, %+v", err, got)
			}
			for image, want := range map[string]string{"panics": "plugin panicked", "loops": "no answer in time"} {
				if _, err = ask(refuse, image); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("refuse that %s: %v", image, err)
				}
			}
			// Many at once, of which some break their instance.
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					image := "fine"
					if i%5 == 4 && transport == manifest.TransportWASM {
						image = "loops"
					}
					if got, err := ask(refuse, image); (err == nil && got.Allowed) != (image == "fine") && !strings.Contains(fmt.Sprint(err), "busy") {
						t.Errorf("request %d about %s: %v, %+v", i, image, err, got)
					}
				})
			}
			group.Wait()
			if got, err = ask(refuse, "fine"); err != nil || !got.Allowed {
				t.Errorf("refuse after all that: %v, %+v", err, got)
			}
			// A changed configuration reaches every instance, and none is started again.
			before := h.present().units[0].started
			cfg.Bundles = []BundleConfig{{Name: "greeter", Transport: transport, Config: json.RawMessage(`{"refuse":{"forbidden":"old"}}`)}}
			if err := h.Reconfigure(cfg); err != nil {
				t.Fatal(err)
			}
			list, _ = h.Admissions()
			for range 2 * wasm.MaxReviewers {
				for image, allowed := range map[string]bool{"old": false, "latest": true} {
					if got, err = ask(list[1], image); err != nil || got.Allowed != allowed {
						t.Errorf("refuse of %s with a live configuration: %v, %+v", image, err, got)
					}
				}
			}
			if now := h.present().units[0].started; now != before {
				t.Errorf("%d guests were started for a configuration", now-before)
			}
		})
	}
}
