package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/pod-security-admission/admission/api/load"

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
