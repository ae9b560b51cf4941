package resources

import (
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func csiStorageCapacityKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity")
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "csistoragecapacities", Singular: "csistoragecapacity",
		New:     func() runtime.Object { return &storagev1.CSIStorageCapacity{} },
		NewList: func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
		Strategy: &rules[*storagev1.CSIStorageCapacity]{
			base: base{gvk: gvk, namespaced: true}, conditional: true,
			validate:   func(c *storagev1.CSIStorageCapacity) field.ErrorList { return validateCapacity(c, false) },
			warnCreate: capacityWarnings,
			warnUpdate: func(c, _ *storagev1.CSIStorageCapacity) []string { return capacityWarnings(c) },
			validateUpdate: func(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
				lenient := len(metav1validation.ValidateLabelSelector(old.NodeTopology, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
				errs := append(validateCapacity(c, lenient), validateMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)...)
				if !apiequality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
					errs = append(errs, field.Invalid(field.NewPath("nodeTopology"), c.NodeTopology, "field is immutable"))
				}
				if c.StorageClassName != old.StorageClassName {
					errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, "field is immutable"))
				}
				return errs
			},
		},
		Columns: cols(nameColumn(), stringColumn("StorageClassName", doc["storageClassName"]), stringColumn("Capacity", doc["capacity"])),
		Row: row(func(c *storagev1.CSIStorageCapacity) []any {
			capacity := "<unset>"
			if c.Capacity != nil {
				capacity = c.Capacity.String()
			}
			return []any{c.Name, c.StorageClassName, capacity}
		}),
	}
}

// validateCapacity is lenient with a selector's values where the stored object was
// let in with such.
func validateCapacity(c *storagev1.CSIStorageCapacity, lenient bool) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	errs = append(errs, metav1validation.ValidateLabelSelector(c.NodeTopology, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient}, field.NewPath("nodeTopology"))...)
	errs = append(errs, invalidAll(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.NameIsDNSSubdomain(c.StorageClassName, false))...)
	if c.Capacity != nil {
		errs = append(errs, nonNegativeQuantity(field.NewPath("capacity"), *c.Capacity)...)
	}
	return errs
}

func capacityWarnings(c *storagev1.CSIStorageCapacity) []string {
	if c.NodeTopology == nil {
		return nil
	}
	var w warnings
	at := field.NewPath("nodeTopology")
	for i, e := range c.NodeTopology.MatchExpressions {
		if msg, ok := deprecatedNodeLabels[e.Key]; ok {
			w.add(at.Child("matchExpressions").Index(i).Child("key"), "%s is %s", e.Key, msg)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if msg, ok := deprecatedNodeLabels[key]; ok {
			w.add(at.Child("matchLabels").Child(key), "%s", msg)
		}
	}
	return w
}
