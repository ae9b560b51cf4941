package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/api/resources"
)

// Kinds lists the served kinds.
func Kinds() []resources.Kind { return []resources.Kind{daemonSetKind(), statefulSetKind()} }

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	resources.AddDefaults(s, setDaemonSetDefaults, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items })
	resources.AddDefaults(s, setStatefulSetDefaults, func(l *appsv1.StatefulSetList) []appsv1.StatefulSet { return l.Items })
	return nil
}

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)

// named is a number of a status with its field's name.
type named struct {
	name string
	n    int64
}

// collisionCountKept: the count of collisions of names never falls.
func collisionCountKept(count, was *int32) field.ErrorList {
	if was == nil || count != nil && *count >= *was {
		return nil
	}
	return field.ErrorList{field.Invalid(statusPath.Child("collisionCount"), ptr.Deref(count, 0), "cannot be decremented")}
}
