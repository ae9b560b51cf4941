package features

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/util/version"
	apiserver "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/metrics/prometheus/feature"

	"pintle.dev/pintle/kernel/yamltree"
)

// Level is the version of Kubernetes whose gates are in force.
const Level = "1.36"

// The libraries are of a later version, and have other defaults.
func init() {
	libraries := utilfeature.DefaultMutableFeatureGate
	if err := errors.Join(libraries.SetEmulationVersion(version.MustParse(Level)), libraries.Add(own), libraries.SetFromMap(map[string]bool{unsafeDeletes: true})); err != nil {
		panic(err)
	}
}

// own are gates of Kubernetes itself that code here asks for, and no library has.
var own = map[featuregate.Feature]featuregate.FeatureSpec{
	HPAScaleToZero: {Default: false, PreRelease: featuregate.Alpha},
}

// HPAScaleToZero: an autoscaler may have minReplicas 0.
const HPAScaleToZero featuregate.Feature = "HPAScaleToZero"

// Both register gates when they are imported, which has to be before init.
var _, _ = apiserver.WatchList, apiextensions.CRDValidationRatcheting

// longest is more than any name of a gate has.
const longest = 128

// Check says why a gate may not be set to a value, or nil. Words are upstream's where
// upstream would refuse too.
func Check(name, value string) error {
	on, err := strconv.ParseBool(value)
	if err != nil {
		return fmt.Errorf("invalid value of %s=%s, err: %w", name, value, err)
	}
	g, ok := gates[name]
	switch {
	case !ok && len(name) > longest:
		return errors.New("unrecognized feature gate: its name is longer than any")
	case !ok:
		if near := yamltree.Nearest(name, slices.Sorted(maps.Keys(gates))); near != "" {
			return fmt.Errorf("unrecognized feature gate: %s; did you mean %q?", name, near)
		}
		return fmt.Errorf("unrecognized feature gate: %s", name)
	case name == "AllAlpha" && !on:
		return nil
	case name == "AllAlpha" || name == "AllBeta":
		return fmt.Errorf("cannot set feature gate %s to %t: most gates of a stage stand for what cannot be switched here; set those you want by name", name, on)
	case on == g.Here || g.Settable:
		return nil
	case g.Locked && g.Here == g.Default:
		return fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", name, on, g.Default)
	case g.Why != "":
		return fmt.Errorf("cannot set feature gate %s to %t: %s", name, on, g.Why)
	case on:
		return fmt.Errorf("cannot set feature gate %s to true: what it stands for is not there; kernel/KUBERNETES.md names what is", name)
	default:
		return fmt.Errorf("cannot set feature gate %s to false: what it stands for cannot be switched off here", name)
	}
}

// IsSo reports whether a gate has the value without being set, and why it cannot have it.
func IsSo(name, value string) (bool, error) {
	if err := Check(name, value); err != nil {
		return false, err
	}
	on, err := strconv.ParseBool(value)
	return err == nil && gates[name].Here == on, err
}

// InForce gives the values of all gates, where set are set.
func InForce(set map[string]string) (map[string]bool, error) {
	out := make(map[string]bool, len(gates))
	for name, g := range gates {
		out[name] = g.Here
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := Check(name, set[name]); err != nil {
			return nil, err
		}
		out[name], _ = strconv.ParseBool(set[name])
	}
	return out, nil
}

// Use puts the gates in force, for the whole process, and tells them in the metric
// kubernetes_feature_enabled.
func Use(set map[string]string) error {
	values, err := InForce(set)
	if err != nil {
		return err
	}
	change := map[string]bool{}
	libraries := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range switches {
		if _, ok := libraries[featuregate.Feature(name)]; !ok {
			return fmt.Errorf("feature gate %s: no library has it any more", name)
		}
		if utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name)) != values[name] {
			change[name] = values[name]
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(change); err != nil {
		return err
	}
	if err := useClients(values, set); err != nil {
		return err
	}
	for name, on := range values {
		feature.RecordFeatureInfo(context.Background(), name, gates[name].Stage, on)
	}
	return nil
}

// ofClients are client-go's gates that were set, with what they were before: as the
// environment (KUBE_FEATURE_…) has them, which those that are not set stay at.
var ofClients = struct {
	sync.Mutex
	before map[clientfeatures.Feature]bool
}{before: map[clientfeatures.Feature]bool{}}

// useClients sets client-go's gates, and notes in values what all of them are.
func useClients(values map[string]bool, set map[string]string) error {
	gates := clientfeatures.FeatureGates()
	settable, ok := gates.(interface {
		Set(name clientfeatures.Feature, on bool) error
	})
	if !ok {
		return errors.New("feature gates of client-go cannot be set: something has put others in their place")
	}
	ofClients.Lock()
	defer ofClients.Unlock()
	for _, name := range clientSwitches {
		key := clientfeatures.Feature(name)
		_, wanted := set[name]
		former, changed := ofClients.before[key]
		switch {
		case wanted && !changed:
			ofClients.before[key] = gates.Enabled(key)
			fallthrough
		case wanted:
			if err := settable.Set(key, values[name]); err != nil {
				return err
			}
		case changed:
			if err := settable.Set(key, former); err != nil {
				return err
			}
		}
		values[name] = gates.Enabled(key)
	}
	return nil
}
