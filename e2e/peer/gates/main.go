package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logs "k8s.io/component-base/logs/api/v1"
	metrics "k8s.io/component-base/metrics/features"

	// The others register their gates when they are imported.
	_ "k8s.io/apiextensions-apiserver/pkg/features"
	_ "k8s.io/controller-manager/pkg/features/register"
	_ "k8s.io/kubernetes/pkg/features"
)

func main() {
	out := flag.String("out", "", "file to write")
	flag.Parse()
	data, err := recorded()
	if err == nil {
		err = os.WriteFile(*out, data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
}

// known are the gates of kube-apiserver, kube-controller-manager, kube-scheduler and kubelet, which share theirs.
func known() (map[featuregate.Feature]featuregate.FeatureSpec, error) {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopyAndReset()
	for _, add := range []func(featuregate.MutableVersionedFeatureGate) error{logs.AddFeatureGates, metrics.AddFeatureGates} {
		if err := add(gates); err != nil {
			return nil, err
		}
	}
	if err := gates.SetEmulationVersion(version.MustParse("1.36")); err != nil {
		return nil, err
	}
	return gates.GetAll(), nil
}

func recorded() ([]byte, error) {
	all, err := known()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString("# The feature gates of Kubernetes 1.36.3: name, stage, default, whether it is locked to that.\n" +
		"# make peer-goldens writes this file.\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		spec := all[name]
		stage := string(spec.PreRelease)
		if spec.PreRelease == featuregate.GA {
			stage = "GA"
		}
		fmt.Fprintf(&b, "%s %s %t %t\n", name, stage, spec.Default, spec.LockToDefault)
	}
	return []byte(b.String()), nil
}
