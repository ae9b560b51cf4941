package api

import (
	"crypto/sha256"
	"fmt"
	"os"
	goruntime "runtime"

	apiversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"

	"pintle.dev/pintle/kernel/features"
)

// GitVersion is what /version reports: the Kubernetes API level, so that
// kubectl and Helm judge it by that, and who speaks it.
const GitVersion = "v1.36.3+pintle"

// level reports the API level instead of the version of a build of Kubernetes.
type level struct {
	basecompatibility.MutableEffectiveVersion
}

func newLevel() level {
	return level{basecompatibility.NewEffectiveVersionFromString("1.36.3", features.Level, "1.35")}
}

func (level) Info() *apiversion.Info {
	return &apiversion.Info{
		Major: "1", Minor: "36", GitVersion: GitVersion, GitTreeState: "clean",
		EmulationMajor: "1", EmulationMinor: "36", MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
		GoVersion: goruntime.Version(), Compiler: goruntime.Compiler,
		Platform: goruntime.GOOS + "/" + goruntime.GOARCH,
	}
}

// serverID is this server in metrics, as kube-apiserver names itself.
func serverID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("apiserver-%x", sha256.Sum256([]byte(host)))
}
