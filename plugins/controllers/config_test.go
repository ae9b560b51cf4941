package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"pintle.dev/pintle/sdk/controller"
)

// schema is what the manifest says of a controller's configuration.
type schema struct {
	Type                 string             `yaml:"type"`
	AdditionalProperties *bool              `yaml:"additionalProperties"`
	Properties           map[string]keyword `yaml:"properties"`
}

type keyword struct {
	Type    string   `yaml:"type"`
	Pattern string   `yaml:"pattern"`
	Minimum *float64 `yaml:"minimum"`
	Maximum *float64 `yaml:"maximum"`
	Default any      `yaml:"default"`
}

func schemas(t *testing.T) map[string]schema {
	t.Helper()
	data, err := os.ReadFile("manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Plugins []struct {
			Name         string  `yaml:"name"`
			ConfigSchema *schema `yaml:"configSchema"`
		} `yaml:"plugins"`
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	out := map[string]schema{}
	for _, p := range manifest.Plugins {
		if p.ConfigSchema == nil || p.ConfigSchema.Type != "object" || p.ConfigSchema.AdditionalProperties == nil || *p.ConfigSchema.AdditionalProperties {
			t.Errorf("%s: its configSchema is missing, or lets any key pass", p.Name)
			continue
		}
		out[p.Name] = *p.ConfigSchema
	}
	return out
}

// configurationPage says what the keys of controllers are.
const configurationPage = "../../configs/docs/plugins.md"

// The manifest, the page about configurations and the code have the same keys, with
// the same defaults.
func TestKeysAreDocumented(t *testing.T) {
	page, err := os.ReadFile(configurationPage)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Settings of controllers\n")
	if !ok {
		t.Fatal("the page has no section about controllers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	said := map[string]string{} // default by controller and key
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| `([^`]+)` \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(section, -1) {
		said[row[1]+" "+row[2]] = strings.TrimSpace(row[3])
	}
	for name, s := range schemas(t) {
		for key, k := range s.Properties {
			want := "none"
			if k.Default != nil {
				want = fmt.Sprint(k.Default)
			}
			if got := said[name+" "+key]; got != want {
				t.Errorf("the page says that the default of %s of %s is %q; the manifest %q", key, name, got, want)
			}
			delete(said, name+" "+key)
		}
	}
	for key := range said {
		t.Errorf("the page has %s, which the manifest does not have", key)
	}
}

// Each controller takes its defaults and the ends of each key's range, and refuses what
// is beyond them, of another type, or not there.
func TestKeysAreTaken(t *testing.T) {
	all := schemas(t)
	served := map[string]bool{}
	for _, c := range bundle() {
		served[c.Name] = true
		s, ok := all[c.Name]
		if !ok {
			t.Errorf("%s is not in the manifest", c.Name)
			continue
		}
		build := func(config map[string]any) error {
			t.Helper()
			data, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			client := fake.NewClientset()
			_, err = c.New(&controller.Context{
				Name: c.Name, Config: data, Logger: slog.New(slog.DiscardHandler), Client: client, Informers: informers.NewSharedInformerFactory(client, 0),
				RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"}, BundleConfig: &rest.Config{Host: "http://127.0.0.1:1"},
			})
			return err
		}
		least := map[string]any{} // what it cannot be without
		if c.Name == "root-ca" {
			least["caFile"] = testCA(t)
		}
		with := func(key string, value any) map[string]any {
			config := maps.Clone(least)
			config[key] = value
			return config
		}
		if err := build(least); err != nil {
			t.Errorf("%s without a key: %v", c.Name, err)
		}
		if err := build(with("no-such-key", 1)); err == nil {
			t.Errorf("%s takes a key that it does not have", c.Name)
		}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			k := s.Properties[key]
			try := func(value any, taken bool) {
				t.Helper()
				if err := build(with(key, value)); (err == nil) != taken {
					t.Errorf("%s: %s: %v: %v", c.Name, key, value, err)
				}
			}
			if k.Default != nil {
				try(k.Default, true)
			}
			if k.Type != "string" {
				try("x", false)
			}
			if k.Pattern != "" {
				try("-5s", false)
				try("5", false)
				if text, _ := k.Default.(string); !regexp.MustCompile(k.Pattern).MatchString(text) {
					t.Errorf("%s: %s: the default %s does not match", c.Name, key, text)
				}
			}
			if k.Minimum != nil {
				try(*k.Minimum-1, false)
			}
			if k.Minimum != nil && k.Type == "integer" {
				try(*k.Minimum, true)
			}
			if k.Maximum != nil {
				try(*k.Maximum+1, false)
				try(*k.Maximum, true)
			}
		}
	}
	for name := range all {
		if !served[name] {
			t.Errorf("the manifest has %s, the bundle does not", name)
		}
	}
}

// testCA is the path of a certificate.
func testCA(t *testing.T) string {
	t.Helper()
	pem, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
