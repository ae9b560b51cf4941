package api

import (
	"crypto/sha256"
	"fmt"
	"os"
	goruntime "runtime"

	"github.com/prometheus/client_golang/prometheus"
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

// buildInfo is the metric by which dashboards find the version of a server.
func buildInfo() prometheus.Collector {
	info := level{}.Info()
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
	g.WithLabelValues(info.Major, info.Minor, info.GitVersion, info.GitCommit, info.GitTreeState, info.BuildDate, info.GoVersion, info.Compiler, info.Platform).Set(1)
	return g
}
