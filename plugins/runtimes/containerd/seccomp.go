package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// seccompLack asks runc for its features and says what follows when seccomp is
// not among them; empty: it is.
func seccompLack(ctx context.Context, runc string) string {
	out, err := exec.CommandContext(ctx, runc, "features").Output()
	if err != nil {
		return fmt.Sprintf("runc does not say whether it has seccomp: %v", err)
	}
	var features struct {
		Linux struct {
			Seccomp struct {
				Enabled *bool `json:"enabled"`
			} `json:"seccomp"`
		} `json:"linux"`
	}
	if err := json.Unmarshal(out, &features); err != nil {
		return fmt.Sprintf("runc does not say whether it has seccomp: %v", err)
	}
	if enabled := features.Linux.Seccomp.Enabled; enabled == nil || !*enabled {
		return "runc was built without seccomp: containers with the profile RuntimeDefault do not start"
	}
	return ""
}
