package templates_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk/artifact"
	"pintle.dev/pintle/sdk/conformance"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/templates"
	"pintle.dev/pintle/sdk/toolchain"
)

// modules are the languages that make modules only.
var modules = []string{toolchain.C, toolchain.AssemblyScript, toolchain.Rust}

// build renders the templates of some kinds over each other, puts the files of
// testdata on top, and builds a module of it.
func build(t *testing.T, language string, onTop bool, kinds ...string) (dir, module string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the tool chains take their time")
	}
	if err := toolchain.Ready(t.Context(), language); err != nil {
		t.Skip(err)
	}
	dir = filepath.Join(t.TempDir(), "team")
	all := map[string][]byte{}
	for _, kind := range kinds {
		files, err := templates.Render(language, kind, templates.Values{Name: "team"})
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, files)
	}
	for name, data := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if onTop {
			if own, err := os.ReadFile(filepath.Join("testdata", language, name)); err == nil {
				data = own
			}
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := toolchain.Build{Dir: dir, Name: "team", Language: language, Targets: []string{toolchain.WASM}}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dir, built[0].Path
}

func load(t *testing.T, path string, o artifact.Options) *artifact.Module {
	t.Helper()
	m, err := artifact.LoadModule(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Controllers and admission plugins of every language that is built as a module
// pass their cases and the suite (issue 5: any language).
func TestObjectsInEveryLanguage(t *testing.T) {
	for _, language := range modules {
		for _, kind := range []string{"controller", "admission"} {
			t.Run(language+"/"+kind, func(t *testing.T) {
				dir, path := build(t, language, false, kind)
				m := load(t, path, artifact.Options{})
				cases, err := conformance.ReadCases(filepath.Join(dir, "cases"))
				if err != nil || (len(cases) == 0) != (kind == "controller") {
					t.Fatalf("%d cases, %v", len(cases), err)
				}
				for _, c := range cases {
					if err := c.Run(t.Context(), m.Open); err != nil {
						t.Errorf("case %s: %v", c.Name, err)
					}
				}
				results, err := conformance.Check(t.Context(), m.Open, conformance.Options{
					Want: []*contractv1.PluginDescription{{Name: "team", Kind: kind}}})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range conformance.Faults(results) {
					t.Errorf("%s: %s", f.Check, f.Fault)
				}
				if len(results) != 4 { // describe, buffers, those of the kind, stop
					t.Errorf("the suite asked %v", results)
				}
			})
		}
	}
}

const asked = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"ask","uid":"7"},"data":{"text":"\u00e9 \ud83d\ude00 \"q\"\n"}}`

// seen are the requests that testdata makes of the host, in order, with answers.
var seen = []struct{ function, request, answer string }{
	{"get", `{"resource":"v1/configmaps","namespace":"default","name":"ask"}`, `{"object":` + asked + `}`},
	{"list", `{"resource":"v1/pods","namespace":"default","labelSelector":"app=web"}`, `{"object": {"percent": -12.5, "items": [ {"metadata":{"name":"a"}} , {"metadata":{"name":"b"}} ]}}`},
	{"patch", `{"resource":"v1/pods","namespace":"default","name":"a","subresource":"status","patchType":"merge","patch":{"metadata":{"labels":{"seen":"é 😀 \"q\"\n"}}}}`, `{"object":{}}`},
	{"patch", `{"resource":"v1/pods","namespace":"default","name":"b","subresource":"status","patchType":"merge","patch":{"metadata":{"labels":{"seen":"é 😀 \"q\"\n"}}}}`, `{"object":{}}`},
	{"update", `{"resource":"v1/configmaps","namespace":"default","object":` + asked + `}`, `{"object":{}}`},
	{"event", `{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"ask","uid":"7","type":"Normal","reason":"Seen","message":"2 pods of -12%"}`, `{"object":{}}`},
	{"delete", `{"resource":"v1/configmaps","namespace":"default","name":"ask"}`, `{"status":{"code":409,"reason":"Conflict","message":"it is \"held\""}}`},
}

// Everything that the files of a language offer to controllers and mutating
// plugins reaches the host as sdk/ABI.md says.
func TestObjectsSayWhatTheABISays(t *testing.T) {
	for _, language := range modules {
		t.Run(language, func(t *testing.T) {
			_, path := build(t, language, true, "admission", "controller")
			calls, logged := 0, strings.Builder{}
			o := artifact.Options{Output: &logged, Host: func(function string, request []byte) []byte {
				if calls >= len(seen) {
					t.Errorf("call %d: %s %s", calls+1, function, request)
					return []byte(`{"status":{"code":500,"message":"one too many"}}`)
				}
				want := seen[calls]
				calls++
				if function != want.function || canonical(t, request) != canonical(t, []byte(want.request)) {
					t.Errorf("call %d: %s %s, want %s %s", calls, function, request, want.function, want.request)
				}
				return []byte(want.answer)
			}}
			a, err := load(t, path, o).Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			err = a.(artifact.Reconciler).Reconcile(t.Context(), 0, []byte(`{"namespace":"default","name":"ask"}`))
			if !errors.Is(err, artifact.ErrRefused) || !strings.Contains(err.Error(), `409 Conflict: it is "held"`) {
				t.Errorf("reconcile: %v", err)
			}
			if calls != len(seen) {
				t.Errorf("%d calls, want %d", calls, len(seen))
			}
			if want := `{"level":4,"message":"é 😀 \"q\"\n"}`; canonical(t, []byte(logged.String())) != canonical(t, []byte(want)) {
				t.Errorf("logged %s, want %s", logged.String(), want)
			}
			for request, want := range map[string]string{
				`{"operation":"CREATE","object":{"metadata":{"annotations":{"x/y":"é"}}}}`: `{"allowed":true,"patchType":"JSONPatch","warnings":["a \"warning\""],
					"patch":[{"op":"add","path":"/metadata/labels/a~1b","value":"é"},{"op":"remove","path":"/spec/x"}]}`,
				`{"operation":"CREATE","object":{"metadata":{"annotations":{"x/y":"no"}}}}`: `{"allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no is \"no\""},"warnings":["a \"warning\""]}`,
			} {
				got, err := a.Review(t.Context(), 1, []byte(request))
				if err != nil {
					t.Fatalf("%s: %v", request, err)
				}
				if canonical(t, unpatched(t, got)) != canonical(t, []byte(want)) {
					t.Errorf("%s: %s, want %s", request, got, want)
				}
			}
			for config, good := range map[string]bool{"": true, `{"size":3}`: true, `{"other":3}`: false} {
				if err := a.Configure(t.Context(), 1, []byte(config)); (err == nil) != good || err != nil && !strings.Contains(err.Error(), "size is missing") {
					t.Errorf("configuration %q: %v", config, err)
				}
			}
			if err := a.Configure(t.Context(), 0, []byte(`{}`)); !errors.Is(err, artifact.ErrRefused) {
				t.Errorf("a configuration of a plugin that takes none: %v", err)
			}
			if err := a.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func canonical(t *testing.T, data []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Errorf("%s: %v", data, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// unpatched is an AdmissionResponse whose patch is not in base64.
func unpatched(t *testing.T, data []byte) []byte {
	t.Helper()
	var response map[string]json.RawMessage
	var patch []byte
	if err := json.Unmarshal(data, &response); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if raw, ok := response["patch"]; ok {
		if err := json.Unmarshal(raw, &patch); err != nil {
			t.Fatal(err)
		}
		response["patch"] = patch
	}
	out, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
