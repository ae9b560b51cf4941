package batch

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// Kinds lists the served kinds.
func Kinds() []resources.Kind { return []resources.Kind{jobKind(), cronJobKind()} }

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	resources.AddDefaults(s, setJobDefaults, func(l *batchv1.JobList) []batchv1.Job { return l.Items })
	resources.AddDefaults(s, setCronJobDefaults, func(l *batchv1.CronJobList) []batchv1.CronJob { return l.Items })
	return nil
}

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
	statusPath   = field.NewPath("status")
)
