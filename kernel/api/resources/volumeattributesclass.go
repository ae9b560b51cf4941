package resources

import (
	"reflect"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func volumeAttributesClassKind() Kind {
	gvk := storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass")
	return Kind{
		GVK: gvk, Resource: "volumeattributesclasses", Singular: "volumeattributesclass", ShortNames: []string{"vac"},
		New:     func() runtime.Object { return &storagev1.VolumeAttributesClass{} },
		NewList: func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
		Strategy: &rules[*storagev1.VolumeAttributesClass]{
			base:     base{gvk: gvk},
			validate: validateVolumeAttributesClass,
			validateUpdate: func(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
				errs := validateMetaUpdate(&c.ObjectMeta, &old.ObjectMeta)
				if c.DriverName != old.DriverName {
					errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
				}
				if !reflect.DeepEqual(c.Parameters, old.Parameters) {
					errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
				}
				return append(errs, validateVolumeAttributesClass(c)...)
			},
		},
		Columns: cols(nameColumn(), stringColumn("DriverName", "Name of the CSI driver This field is immutable."), ageColumn()),
		Row: row(func(c *storagev1.VolumeAttributesClass) []any {
			return []any{c.Name, c.DriverName, ageCell(c.CreationTimestamp)}
		}),
	}
}

func validateVolumeAttributesClass(c *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := validateMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
	driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
	if c.DriverName == "" {
		errs = append(errs, field.Required(driver, ""))
	} else {
		lower := strings.ToLower(c.DriverName)
		errs = append(errs, invalidAll(driver, lower, validation.IsQualifiedName(lower))...)
	}
	if len(c.Parameters) == 0 {
		errs = append(errs, field.Required(parameters, "must contain at least one key/value pair"))
	}
	return append(errs, validateParameters(c.Parameters, parameters)...)
}
