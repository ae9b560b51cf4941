package resources

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// maxParameters and maxParameterBytes bound the parameters of a class.
	maxParameters     = 512
	maxParameterBytes = 256 << 10

	defaultClassAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultClassAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

func storageClassKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("StorageClass")
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "storageclasses", Singular: "storageclass", ShortNames: []string{"sc"},
		New:     func() runtime.Object { return &storagev1.StorageClass{} },
		NewList: func() runtime.Object { return &storagev1.StorageClassList{} },
		Strategy: &rules[*storagev1.StorageClass]{
			base:       base{gvk: gvk},
			validate:   validateStorageClass,
			warnCreate: storageClassWarnings,
			warnUpdate: func(c, _ *storagev1.StorageClass) []string { return storageClassWarnings(c) },
			validateUpdate: func(c, old *storagev1.StorageClass) field.ErrorList {
				return append(validateStorageClass(c), validateStorageClassUpdate(c, old)...)
			},
		},
		Columns: cols(nameColumn(), stringColumn("Provisioner", doc["provisioner"]), stringColumn("ReclaimPolicy", doc["reclaimPolicy"]),
			stringColumn("VolumeBindingMode", doc["volumeBindingMode"]), stringColumn("AllowVolumeExpansion", doc["allowVolumeExpansion"]), ageColumn()),
		Row: row(storageClassCells),
	}
}

func setStorageClassDefaults(c *storagev1.StorageClass) {
	if c.ReclaimPolicy == nil {
		c.ReclaimPolicy = ptr.To(corev1.PersistentVolumeReclaimDelete)
	}
	if c.VolumeBindingMode == nil {
		c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
	}
}

func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	provisioner := field.NewPath("provisioner")
	if c.Provisioner == "" {
		errs = append(errs, field.Required(provisioner, ""))
	} else {
		lower := strings.ToLower(c.Provisioner)
		errs = append(errs, invalidAll(provisioner, lower, validation.IsQualifiedName(lower))...)
	}
	errs = append(errs, validateParameters(c.Parameters, field.NewPath("parameters"))...)
	if p := ptr.Deref(c.ReclaimPolicy, ""); p != "" {
		errs = append(errs, supported(field.NewPath("reclaimPolicy"), p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	if mode := field.NewPath("volumeBindingMode"); c.VolumeBindingMode == nil {
		errs = append(errs, field.Required(mode, ""))
	} else {
		errs = append(errs, supported(mode, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	}
	return append(errs, validateTopologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func validateParameters(parameters map[string]string, path *field.Path) field.ErrorList {
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for k, v := range parameters {
		if k == "" {
			errs = append(errs, field.Invalid(path, k, "field can not be empty."))
		}
		size += len(k) + len(v)
	}
	if size > maxParameterBytes {
		errs = append(errs, field.TooLong(path, "", maxParameterBytes))
	}
	return errs
}

// validateTopologies: label keys once a term, values once a key, terms once.
func validateTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	// With nothing in the places to come, as upstream has it: an empty term is
	// refused as a double of that.
	seen := make([]map[string]sets.Set[string], len(terms))
	for i := range terms {
		term := map[string]sets.Set[string]{}
		expressions := path.Index(i).Child("matchLabelExpressions")
		for j, e := range terms[i].MatchLabelExpressions {
			at := expressions.Index(j)
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			values := sets.Set[string]{}
			for k, v := range e.Values {
				if values.Has(v) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), v))
				}
				values.Insert(v)
			}
			errs = append(errs, metav1validation.ValidateLabelName(e.Key, at.Child("key"))...)
			if _, there := term[e.Key]; there {
				errs = append(errs, field.Duplicate(at.Child("key"), e.Key))
			}
			term[e.Key] = values
		}
		for _, other := range seen {
			if apiequality.Semantic.DeepEqual(term, other) {
				errs = append(errs, field.Duplicate(expressions, ""))
			}
		}
		seen = append(seen, term)
	}
	return errs
}

// validateStorageClassUpdate: only metadata, mount options, allowed topologies and
// whether volumes may grow can be changed.
func validateStorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := validateMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

func storageClassWarnings(c *storagev1.StorageClass) []string {
	var w warnings
	for i := range c.AllowedTopologies {
		for j, e := range c.AllowedTopologies[i].MatchLabelExpressions {
			if msg, ok := deprecatedNodeLabels[e.Key]; ok {
				w.add(field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions").Index(j).Child("key"), "%s", msg)
			}
		}
	}
	return w
}

func storageClassCells(c *storagev1.StorageClass) []any {
	name := c.Name
	if isDefaultClass(&c.ObjectMeta) {
		name += " (default)"
	}
	return []any{
		name, c.Provisioner, string(ptr.Deref(c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)),
		string(ptr.Deref(c.VolumeBindingMode, storagev1.VolumeBindingImmediate)), ptr.Deref(c.AllowVolumeExpansion, false), ageCell(c.CreationTimestamp),
	}
}

func isDefaultClass(m *metav1.ObjectMeta) bool {
	return m.Annotations[defaultClassAnnotation] == "true" || m.Annotations[betaDefaultClassAnnotation] == "true"
}
