package resources

import (
	"bytes"
	"maps"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// immutableMessage answers changes of a ConfigMap or Secret that says it is
// immutable.
const immutableMessage = "field is immutable when `immutable` is set"

func configMapKind() Kind {
	gvk := v1.SchemeGroupVersion.WithKind("ConfigMap")
	doc := v1.ConfigMap{}.SwaggerDoc()
	return Kind{
		GVK: gvk, Resource: "configmaps", Singular: "configmap", ShortNames: []string{"cm"},
		New:     func() runtime.Object { return &v1.ConfigMap{} },
		NewList: func() runtime.Object { return &v1.ConfigMapList{} },
		Strategy: &rules[*v1.ConfigMap]{
			base:           base{gvk: gvk, namespaced: true},
			validate:       validateConfigMap,
			validateUpdate: validateConfigMapUpdate,
		},
		Columns: cols(nameColumn(), stringColumn("Data", doc["data"]), ageColumn()),
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*v1.ConfigMap)
			return []any{o.Name, int64(len(o.Data) + len(o.BinaryData)), ageCell(o.CreationTimestamp)}, nil
		},
	}
}

func setConfigMapDefaults(o *v1.ConfigMap) {
	if o.Data == nil {
		o.Data = map[string]string{}
	}
}

func validateConfigMap(o *v1.ConfigMap) field.ErrorList {
	errs := validateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	size := 0
	for key, value := range o.Data {
		path := field.NewPath("data").Key(key)
		for _, msg := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(path, key, msg))
		}
		if _, both := o.BinaryData[key]; both {
			errs = append(errs, field.Invalid(path, key, "duplicate of key present in binaryData"))
		}
		size += len(value)
	}
	for key, value := range o.BinaryData {
		for _, msg := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(field.NewPath("binaryData").Key(key), key, msg))
		}
		size += len(value)
	}
	if size > v1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", v1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(o, old *v1.ConfigMap) field.ErrorList {
	errs := validateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
	if isTrue(old.Immutable) {
		if !isTrue(o.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableMessage))
		}
		if !maps.Equal(o.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableMessage))
		}
		if !maps.EqualFunc(o.BinaryData, old.BinaryData, bytes.Equal) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableMessage))
		}
	}
	return append(errs, validateConfigMap(o)...)
}

func isTrue(b *bool) bool { return b != nil && *b }
