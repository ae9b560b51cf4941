package readmes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/sdk"
)

func TestFaults(t *testing.T) {
	plugin := sdk.PluginInfo{Name: "A", Kind: sdk.KindPredicate, Scope: sdk.ScopeNodeObject, Reads: []string{"Service"}}
	const text = "# A\n\n## Scope\n\n`node-object`: the pod.\n\n## Failure mode\n"
	good, err := with([]byte(text), []sdk.PluginInfo{plugin})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := with(good, []sdk.PluginInfo{plugin}); err != nil || string(again) != string(good) {
		t.Errorf("written twice it is another: %v\n%s", err, again)
	}
	if found := faults(good, []sdk.PluginInfo{plugin}); len(found) != 0 {
		t.Errorf("what was written has the faults %q", found)
	}
	for name, change := range map[string]func(p *sdk.PluginInfo){
		"kind":   func(p *sdk.PluginInfo) { p.Kind = sdk.KindPreFilter },
		"scope":  func(p *sdk.PluginInfo) { p.Scope = sdk.ScopeNode },
		"pods":   func(p *sdk.PluginInfo) { p.Pods = sdk.PodsWithClaims },
		"reads":  func(p *sdk.PluginInfo) { p.Reads = nil },
		"scores": func(p *sdk.PluginInfo) { p.Kind, p.MaxScore = sdk.KindPriority, 100 },
	} {
		other := plugin
		change(&other)
		if found := faults(good, []sdk.PluginInfo{other}); len(found) == 0 {
			t.Errorf("another %s is not found", name)
		}
	}
	for _, bad := range []string{
		strings.Replace(string(good), "`node-object`: the", "`node`: the", 1),
		strings.Replace(string(good), "## Scope", "## Range", 1),
		text,
	} {
		if found := faults([]byte(bad), []sdk.PluginInfo{plugin}); len(found) == 0 {
			t.Errorf("no fault is found in\n%s", bad)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#:\s]+README\.md)`)

// readme is a README and those that it links to.
func readme(folder string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		return "", err
	}
	all := string(text)
	for _, m := range link.FindAllStringSubmatch(all, -1) {
		linked, err := os.ReadFile(filepath.Join(folder, m[1]))
		if err != nil {
			return "", err
		}
		all += string(linked)
	}
	return all, nil
}

// TestBundleReadmes: a README beside a manifest names each of its plugins, and the
// keys of their configuration, or links to the README that does.
func TestBundleReadmes(t *testing.T) {
	var manifests []string
	for _, pattern := range []string{"../*/manifest.yaml", "../*/*/manifest.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, found...)
	}
	compared := 0
	for _, file := range manifests {
		text, err := readme(filepath.Dir(file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Error(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct {
			Plugins []struct {
				Name, Kind   string
				ConfigSchema struct {
					Properties map[string]any
				} `yaml:"configSchema"`
			}
		}
		if err := yaml.Unmarshal(data, &manifest); err != nil {
			t.Fatal(err)
		}
		compared++
		for _, p := range manifest.Plugins {
			if !strings.Contains(text, p.Name) {
				t.Errorf("%s: the README does not name the %s %s", file, p.Kind, p.Name)
			}
			for key := range p.ConfigSchema.Properties {
				if !strings.Contains(text, key) {
					t.Errorf("%s: the README does not name the key %s of %s", file, key, p.Name)
				}
			}
		}
	}
	if compared < 4 {
		t.Errorf("%d READMEs were compared; there are more", compared)
	}
}
