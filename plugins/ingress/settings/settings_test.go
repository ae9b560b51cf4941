package settings

import (
	"encoding/json"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestRead(t *testing.T) {
	for config, want := range map[string]string{
		``: "", `{}`: "", `{"class":""}`: "", `{"httpAddresses":[":8080"],"httpsAddresses":[]}`: "", `{"httpAddresses":["[::1]:80"]}`: "",
		`{"class":"a b"}`: "class:", `{"httpAddresses":[],"httpsAddresses":[]}`: "name one address", `{"httpAddresses":["80"]}`: "httpAddresses:",
		`{"httpAddresses":[":443"]}`: "named twice", `{"httpsAddresses":[":70000"]}`: "want a port", `{"httpsAddresses":[":http"]}`: "want a port",
		`{"httpsAddresses":["a.test:80"]}`: "no IP address", `{"publishAddresses":["a.test"]}`: "publishAddresses:", `{"trustedProxies":["192.0.2.1"]}`: "trustedProxies:",
		`{"secretInterval":"1ms"}`: "secretInterval:", `{"clientTimeout":"48h"}`: "clientTimeout:", `{"maxRequests":0}`: "maxRequests:",
		`{"maxConnections":3000}`: "together", `{"maxHeaderBytes":1}`: "maxHeaderBytes:", `{"maxBodyBytes":-1}`: "maxBodyBytes:", `{"maxPathsPerNamespace":0}`: "maxPathsPerNamespace:",
		`{"clas":"x"}`: "unknown field", `{"idleTimeout":"x"}`: "invalid duration", `[]`: "want an object",
	} {
		_, err := Read([]byte(config))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
	s, err := Read([]byte(`{"trustedProxies":["192.0.2.9/24"]}`))
	if err != nil || !s.Trusts(netip.MustParseAddr("192.0.2.1")) || s.Trusts(netip.MustParseAddr("192.0.3.1")) {
		t.Errorf("trusted proxies: %v", err)
	}
}

// TestManifest: the manifest and the page have each key, with its default.
func TestManifest(t *testing.T) {
	data, err := os.ReadFile("../manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Plugins []struct {
			ConfigSchema struct {
				Properties map[string]struct {
					Default any `yaml:"default"`
				} `yaml:"properties"`
			} `yaml:"configSchema"`
		} `yaml:"plugins"`
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	there, keys := manifest.Plugins[0].ConfigSchema.Properties, 0
	defaults := map[string]any{}
	for key, p := range there {
		if p.Default != nil {
			defaults[key] = p.Default
		}
		if !strings.Contains(string(page), "\n| `"+key+"` |") {
			t.Errorf("README.md does not have %s", key)
		}
	}
	of := reflect.TypeFor[Settings]()
	for i := range of.NumField() {
		if key := of.Field(i).Tag.Get("json"); key != "" {
			keys++
			if _, ok := there[key]; !ok {
				t.Errorf("the manifest does not have %s", key)
			}
		}
	}
	if keys != len(there) {
		t.Errorf("the manifest has %d keys, the settings %d", len(there), keys)
	}
	text, err := json.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Read(text)
	if err != nil || !reflect.DeepEqual(want, Default()) {
		t.Errorf("the manifest's defaults are %+v, %v", want, err)
	}
}
