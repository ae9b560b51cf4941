package resources

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Rules is a Strategy written as a table, for the packages that define kinds:
// what is nil is not done. T is the pointer type of the kind's object.
type Rules[T runtime.Object] struct {
	GVK        schema.GroupVersionKind
	Also       []schema.GroupVersion // as in Kind
	Namespaced bool
	// Reset lists the fields that the strategy takes back from a request, each
	// as the parts of its path.
	Reset [][]any
	// Conditional: an update must name the resourceVersion it is made from.
	Conditional bool
	// Orphan: a delete that says nothing about dependents keeps them.
	Orphan bool

	PrepareCreate  func(obj T)
	PrepareUpdate  func(obj, old T)
	Validate       func(obj T) field.ErrorList
	ValidateUpdate func(obj, old T) field.ErrorList
	WarnCreate     func(obj T) []string
	WarnUpdate     func(obj, old T) []string
}

// Strategy is what the rules say, as a store asks for it.
func (r Rules[T]) Strategy() Strategy {
	b := base{gvk: r.GVK, also: r.Also, namespaced: r.Namespaced}
	if len(r.Reset) > 0 {
		b = b.resetting(r.Reset...)
	}
	return &rules[T]{
		base: b, conditional: r.Conditional, orphan: r.Orphan,
		prepareCreate: r.PrepareCreate, prepareUpdate: r.PrepareUpdate,
		validate: r.Validate, validateUpdate: r.ValidateUpdate,
		warnCreate: r.WarnCreate, warnUpdate: r.WarnUpdate,
	}
}

// AddDefaults registers set for a kind and for each item of its list.
func AddDefaults[T, L any, P object[T], Q object[L]](s *runtime.Scheme, set func(P), items func(Q) []T) {
	defaulted(s, set, items)
}

// ValidateMeta checks the metadata of a new object: its name and, of each
// finalizer, that it is qualified or well known.
func ValidateMeta(m *metav1.ObjectMeta, namespaced bool, name apivalidation.ValidateNameFunc) field.ErrorList {
	return validateMeta(m, namespaced, name)
}

// ValidateMetaUpdate checks what an update may change in metadata.
func ValidateMetaUpdate(m, old *metav1.ObjectMeta) field.ErrorList { return validateMetaUpdate(m, old) }

// ValidateContainerResourceName asks for a resource that a container can have.
func ValidateContainerResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	return checkContainerResourceName(name, path)
}

// ValidateTemplateMeta checks the metadata that a template gives: labels and
// annotations.
func ValidateTemplateMeta(m *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	return validateTemplateMeta(m, path)
}

// ValidateNodeSelector checks a selector of nodes.
func ValidateNodeSelector(s *corev1.NodeSelector, path *field.Path) field.ErrorList {
	return validateNodeSelector(s, false, path)
}

// IsExtendedResource tells whether a resource is of another domain than Kubernetes'.
func IsExtendedResource(name string) bool { return isExtendedResource(corev1.ResourceName(name)) }

// NameColumn is the first column of every table.
func NameColumn() metav1.TableColumnDefinition { return nameColumn() }

// AgeColumn is the column of AgeCell.
func AgeColumn() metav1.TableColumnDefinition { return ageColumn() }

// StringColumn is a column of words.
func StringColumn(name, description string) metav1.TableColumnDefinition {
	return stringColumn(name, description)
}

// AgeCell is the time since t in the short form of all tables.
func AgeCell(t metav1.Time) string { return ageCell(t) }
