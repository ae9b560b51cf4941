package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/pod-security-admission/admission/api/load"

	"pintle.dev/pintle/kernel/api/admission/eventratelimit"
	"pintle.dev/pintle/kernel/config"
)

// Inline or from a file, it is what upstream reads; both at once, nonsense and a
// file that is not there are refused by name.
func TestPodSecurity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod-security.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\ndefaults: {enforce: restricted}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		inline, file string
		want, fault  string
	}{
		"none":         {want: "privileged"},
		"inline":       {inline: `{"defaults":{"enforce":"baseline"},"exemptions":{"namespaces":["kube-system"]}}`, want: "baseline"},
		"file":         {file: file, want: "restricted"},
		"both":         {inline: `{}`, file: file, fault: "keep one"},
		"no such file": {file: file + "x", fault: "admission.podSecurityFile"},
		"unknown key":  {inline: `{"default":{}}`, fault: "unknown field"},
		"another kind": {inline: `{"kind":"Pod","apiVersion":"v1"}`, fault: "no kind"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{Admission: config.Admission{PodSecurityFile: tc.file}}
			if tc.inline != "" {
				cfg.Admission.PodSecurity = json.RawMessage(tc.inline)
			}
			data, err := podSecurity(cfg)
			if err == nil {
				var read, loadErr = load.LoadFromData(data)
				if err = loadErr; err == nil && read.Defaults.Enforce != tc.want {
					t.Errorf("enforces %s, want %s", read.Defaults.Enforce, tc.want)
				}
			}
			if (tc.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
}

// The same of EventRateLimit.
func TestEventRateLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\nlimits: [{type: Server, qps: 7, burst: 8}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		inline, file string
		want         int32
		fault        string
	}{
		"inline":       {inline: `{"limits":[{"type":"User","qps":5,"burst":6}]}`, want: 5},
		"file":         {file: file, want: 7},
		"none":         {fault: "set admission.eventRateLimit"},
		"null":         {inline: `null`, fault: "must not be empty"},
		"both":         {inline: `{}`, file: file, fault: "admission.eventRateLimit and admission.eventRateLimitFile are both given"},
		"no such file": {file: file + "x", fault: "admission.eventRateLimitFile"},
		"another kind": {inline: `{"kind":"Pod"}`, fault: `of kind "Pod"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := &config.Config{Admission: config.Admission{EventRateLimitFile: tc.file, EventRateLimit: json.RawMessage(tc.inline)}}
			data, err := eventRateLimit(cfg)
			var read *eventratelimit.Configuration
			if err == nil {
				read, err = eventratelimit.Load(data)
			}
			if (tc.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.fault) || err == nil && read.Limits[0].QPS != tc.want {
				t.Errorf("got %+v, %v, want %q", read, err, tc.fault)
			}
		})
	}
}
