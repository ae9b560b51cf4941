package kernel

import (
	"encoding/json"
	"fmt"
	"os"

	"pintle.dev/pintle/kernel/api/admission/eventratelimit"
	"pintle.dev/pintle/kernel/config"
)

// The kind that a configuration of PodSecurity has where it does not say.
const (
	podSecurityKind    = "PodSecurityConfiguration"
	podSecurityVersion = "pod-security.admission.config.k8s.io/v1"
)

// podSecurity is the PodSecurityConfiguration that the configuration holds or
// names; nil for none.
func podSecurity(cfg *config.Config) ([]byte, error) {
	return pluginConfig("admission.podSecurity", cfg.Admission.PodSecurity, cfg.Admission.PodSecurityFile, podSecurityKind, podSecurityVersion)
}

// eventRateLimit is the Configuration of EventRateLimit; nil for none.
func eventRateLimit(cfg *config.Config) ([]byte, error) {
	return pluginConfig("admission.eventRateLimit", cfg.Admission.EventRateLimit, cfg.Admission.EventRateLimitFile, eventratelimit.Kind, eventratelimit.Version)
}

// pluginConfig is what an admission plugin is configured by at a key, or in the file
// that the key with File after it names; nil for none. Inline it need not say its kind.
func pluginConfig(key string, inline json.RawMessage, file, kind, version string) ([]byte, error) {
	switch {
	case len(inline) > 0 && file != "":
		return nil, fmt.Errorf("%s and %sFile are both given; keep one", key, key)
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%sFile: %w", key, err)
		}
		return data, nil
	case len(inline) == 0:
		return nil, nil
	}
	var object map[string]any
	if err := json.Unmarshal(inline, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if object == nil {
		object = map[string]any{}
	}
	for name, value := range map[string]string{"kind": kind, "apiVersion": version} {
		if _, given := object[name]; !given {
			object[name] = value
		}
	}
	return json.Marshal(object)
}
