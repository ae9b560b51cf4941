package kernel

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

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
	inline, file := cfg.Admission.PodSecurity, cfg.Admission.PodSecurityFile
	switch {
	case len(inline) > 0 && file != "":
		return nil, errors.New("admission.podSecurity and admission.podSecurityFile are both given; keep one")
	case file != "":
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("admission.podSecurityFile: %w", err)
		}
		return data, nil
	case len(inline) == 0:
		return nil, nil
	}
	var object map[string]any
	if err := json.Unmarshal(inline, &object); err != nil {
		return nil, fmt.Errorf("admission.podSecurity: %w", err)
	}
	for key, value := range map[string]string{"kind": podSecurityKind, "apiVersion": podSecurityVersion} {
		if _, given := object[key]; !given {
			object[key] = value
		}
	}
	return json.Marshal(object)
}
