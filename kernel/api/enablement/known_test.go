package enablement

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		overrides map[string]string
		keys      map[string]string // key: a part of its error
		whole     string
	}{
		"nothing":        {},
		"all that is":    {overrides: map[string]string{"api/all": "true", "apps/v1": "true", "apps/v1/daemonsets": "false", "autoscaling/v1": "false", "api/beta": "false"}},
		"no such group":  {overrides: map[string]string{"app/v1": "false"}, keys: map[string]string{"app/v1": "unknown api groups app/v1"}},
		"no version":     {overrides: map[string]string{"apps/v2": "true"}, keys: map[string]string{"apps/v2": "has not been registered"}},
		"no resource":    {overrides: map[string]string{"apps/v1/daemonset": "false"}, keys: map[string]string{"apps/v1/daemonset": `no resource "daemonset"`}},
		"several":        {overrides: map[string]string{"apps/v2": "true", "apps/v1": "true", "x/v1/y": "false"}, keys: map[string]string{"apps/v2": "registered", "x/v1/y": "unknown"}},
		"too long":       {overrides: map[string]string{"apps/v1/daemonsets/status": "false"}, keys: map[string]string{"apps/v1/daemonsets/status": "invalid key"}},
		"needed":         {overrides: map[string]string{"policy/v1": "false"}, whole: "policy/v1 is not served by api.runtimeConfig, and the kernel needs it"},
		"nothing at all": {overrides: map[string]string{"api/all": "false"}, whole: "only api/all=false"},
	} {
		t.Run(name, func(t *testing.T) {
			keys, whole := Check(tc.overrides)
			if len(keys) != len(tc.keys) {
				t.Errorf("keys: %v, want %v", keys, tc.keys)
			}
			for key, want := range tc.keys {
				if err := keys[key]; err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %q", key, err, want)
				}
			}
			if (whole == nil) != (tc.whole == "") || whole != nil && !strings.Contains(whole.Error(), tc.whole) {
				t.Errorf("whole: %v, want %q", whole, tc.whole)
			}
		})
	}
}
