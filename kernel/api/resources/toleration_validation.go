package resources

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTolerations checks tolerations; comparisons allows those that compare
// numbers, which are behind a gate that is off.
func validateTolerations(list []corev1.Toleration, comparisons bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		t, p := &list[i], path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, p.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(p.Child("operator"), t.Operator, "operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(p.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) != 0 {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(p.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		default:
			compares := t.Operator == corev1.TolerationOpLt || t.Operator == corev1.TolerationOpGt
			if !comparisons || !compares {
				errs = append(errs, field.NotSupported(p.Child("operator"), t.Operator, tolerationOperators(compares || comparisons)))
				break
			}
			for _, msg := range content.IsDecimalInteger(t.Value) {
				errs = append(errs, field.Invalid(p.Child("value"), t.Value, msg))
			}
			if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
				errs = append(errs, field.Invalid(p.Child("value"), t.Value, err.Error()))
			}
		}
		if t.Effect != "" {
			errs = append(errs, validateTaintEffect(t.Effect, p.Child("effect"))...)
		}
	}
	return errs
}

// tolerationOperators lists those that are allowed. Lt and Gt are behind a gate
// that is off; upstream names them to a client that asks for one of them.
func tolerationOperators(all bool) []corev1.TolerationOperator {
	list := []corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}
	if all {
		list = append(list, corev1.TolerationOpLt, corev1.TolerationOpGt)
	}
	return list
}
