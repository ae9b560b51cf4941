package podtolerationrestriction

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Kind and version of the configuration.
const (
	Kind    = "Configuration"
	Version = "podtolerationrestriction.admission.k8s.io/v1alpha1"
)

// Configuration is what holds in namespaces without the annotations.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Default         []corev1.Toleration `json:"default,omitempty"`
	Allowed         []corev1.Toleration `json:"whitelist,omitempty"`
}

// load reads a configuration in YAML or JSON, and says all that is wrong with it.
func load(data []byte) (c Configuration, err error) {
	if len(data) == 0 {
		return c, nil
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return c, fmt.Errorf("read the configuration: %w", err)
	}
	if c.Kind != Kind || c.APIVersion != Version {
		return c, fmt.Errorf("the configuration is of kind %q in version %q; it must be %s in %s", c.Kind, c.APIVersion, Kind, Version)
	}
	errs := append(validate(c.Default, field.NewPath("default")), validate(c.Allowed, field.NewPath("whitelist"))...)
	return c, errs.ToAggregate()
}

func validate(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var out field.ErrorList
	operators := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	for i, t := range tolerations {
		at := path.Index(i)
		if t.Key != "" {
			for _, message := range validation.IsQualifiedName(t.Key) {
				out = append(out, field.Invalid(at.Child("key"), t.Key, message))
			}
		} else if t.Operator != corev1.TolerationOpExists {
			out = append(out, field.Invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			out = append(out, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			for _, message := range validation.IsValidLabelValue(t.Value) {
				out = append(out, field.Invalid(at.Child("value"), t.Value, message))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				out = append(out, field.Invalid(at.Child("value"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		default:
			out = append(out, field.NotSupported(at.Child("operator"), t.Operator, operators))
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			out = append(out, field.NotSupported(at.Child("effect"), t.Effect, effects))
		}
	}
	return out
}
