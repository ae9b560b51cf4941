package config

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFlags: each key that can be set by a word is told, and nothing that is a plugin's own.
func TestFlags(t *testing.T) {
	cfg := Default()
	cfg.Features = map[string]string{"WatchList": "false", "KMSv1": "true"}
	cfg.Node.Proxies = []string{"a", "b"}
	cfg.Plugins.Bundles = []Bundle{{Name: "x", Config: json.RawMessage(`{"password":"hidden"}`)}}
	cfg.Admission.PodSecurity = json.RawMessage(`{"hidden":1}`)
	got := Flags(cfg)
	for key, want := range map[string]string{
		"api.port": "6443", "features": "KMSv1=true,WatchList=false", "node.proxies": "a,b", "plugins.bundles": "1",
		"store.historyRetention": cfg.Store.HistoryRetention.String(), "api.maxRequestBodies": cfg.API.MaxBodies.String(), "api.priorityAndFairness": "true",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for _, key := range Keys() {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is not told", key)
		}
	}
	for key, value := range got {
		if strings.Contains(value, "hidden") || strings.Contains(value, "{") {
			t.Errorf("%s tells %s", key, value)
		}
	}
}
