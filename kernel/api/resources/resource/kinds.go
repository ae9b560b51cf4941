package resource

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/api/resources"
)

var (
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// Kinds lists the served kinds.
func Kinds(access Access) []resources.Kind {
	return []resources.Kind{deviceClassKind(), claimKind(access), claimTemplateKind(access), sliceKind()}
}

func deviceClassKind() resources.Kind {
	gvk := resourcev1.SchemeGroupVersion.WithKind("DeviceClass")
	return resources.Kind{
		GVK: gvk, Resource: "deviceclasses", Singular: "deviceclass",
		New:     func() runtime.Object { return &resourcev1.DeviceClass{} },
		NewList: func() runtime.Object { return &resourcev1.DeviceClassList{} },
		Strategy: resources.Rules[*resourcev1.DeviceClass]{
			GVK:           gvk,
			PrepareCreate: func(o *resourcev1.DeviceClass) { o.Generation = 1 },
			PrepareUpdate: func(o, old *resourcev1.DeviceClass) {
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
			},
			Validate: func(o *resourcev1.DeviceClass) field.ErrorList { return validateClass(o, nil) },
			ValidateUpdate: func(o, old *resourcev1.DeviceClass) field.ErrorList {
				return append(resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta), validateClass(o, &old.Spec)...)
			},
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{resources.NameColumn(), resources.AgeColumn()},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*resourcev1.DeviceClass)
			return []any{o.Name, resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func claimKind(access Access) resources.Kind {
	gvk := resourcev1.SchemeGroupVersion.WithKind("ResourceClaim")
	return resources.Kind{
		GVK: gvk, Resource: "resourceclaims", Singular: "resourceclaim",
		New:     func() runtime.Object { return &resourcev1.ResourceClaim{} },
		NewList: func() runtime.Object { return &resourcev1.ResourceClaimList{} },
		Strategy: asking(resources.Rules[*resourcev1.ResourceClaim]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"status"}},
			PrepareCreate: func(o *resourcev1.ResourceClaim) {
				o.Status = resourcev1.ResourceClaimStatus{}
				dropFromClaim(&o.Spec)
			},
			PrepareUpdate: func(o, old *resourcev1.ResourceClaim) {
				o.Status = old.Status
				dropFromClaim(&o.Spec)
			},
			Validate: func(o *resourcev1.ResourceClaim) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateClaim(&o.Spec.Devices, specPath.Child("devices"))...)
			},
			ValidateUpdate: func(o, old *resourcev1.ResourceClaim) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
				errs = append(errs, resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Spec, old.Spec, specPath)...)
			},
		}.Strategy(), access.admitsClaim, nil),
		Status: asking(resources.Rules[*resourcev1.ResourceClaim]{
			GVK: gvk, Namespaced: true, Reset: [][]any{{"metadata"}, {"spec"}},
			PrepareUpdate: func(o, old *resourcev1.ResourceClaim) {
				o.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&o.ObjectMeta, &old.ObjectMeta)
				dropFromStatus(&o.Status)
				dropDeallocated(&o.Status, &old.Status)
			},
			ValidateUpdate: func(o, old *resourcev1.ResourceClaim) field.ErrorList {
				errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				return append(errs, validateClaimStatus(o, old)...)
			},
		}.Strategy(), nil, access.admitsStatus),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*resourcev1.ResourceClaim)
			return []any{o.Name, stateCell(o), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func stateCell(o *resourcev1.ResourceClaim) string {
	var states []string
	deleted, allocated := o.DeletionTimestamp != nil, o.Status.Allocation != nil
	for _, s := range []struct {
		name string
		is   bool
	}{
		{"deleted", deleted}, {"pending", !allocated && !deleted},
		{"allocated", allocated}, {"reserved", allocated && len(o.Status.ReservedFor) > 0},
	} {
		if s.is {
			states = append(states, s.name)
		}
	}
	return strings.Join(states, ",")
}

func claimTemplateKind(access Access) resources.Kind {
	gvk := resourcev1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
	type template = resourcev1.ResourceClaimTemplate
	validate := func(o *template) field.ErrorList {
		errs := resources.ValidateMeta(&o.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
		errs = append(errs, resources.ValidateTemplateMeta(&o.Spec.ObjectMeta, specPath.Child("metadata"))...)
		return append(errs, validateClaim(&o.Spec.Spec.Devices, specPath.Child("spec", "devices"))...)
	}
	return resources.Kind{
		GVK: gvk, Resource: "resourceclaimtemplates", Singular: "resourceclaimtemplate",
		New:     func() runtime.Object { return &template{} },
		NewList: func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },
		Strategy: asking(resources.Rules[*template]{
			GVK: gvk, Namespaced: true,
			PrepareCreate: func(o *template) { dropFromClaim(&o.Spec.Spec) },
			PrepareUpdate: func(o, _ *template) { dropFromClaim(&o.Spec.Spec) },
			Validate:      validate,
			ValidateUpdate: func(o, old *template) field.ErrorList {
				errs := append(validate(o), resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
				return append(errs, apivalidation.ValidateImmutableField(o.Spec, old.Spec, specPath)...)
			},
		}.Strategy(), access.admitsTemplate, nil),
		Columns: []metav1.TableColumnDefinition{resources.NameColumn(), resources.AgeColumn()},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*template)
			return []any{o.Name, resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

func sliceKind() resources.Kind {
	gvk := resourcev1.SchemeGroupVersion.WithKind("ResourceSlice")
	node := func(obj runtime.Object) string {
		if name := obj.(*resourcev1.ResourceSlice).Spec.NodeName; name != nil {
			return *name
		}
		return ""
	}
	warn := func(o *resourcev1.ResourceSlice) []string {
		if o.Spec.Driver == strings.ToLower(o.Spec.Driver) {
			return nil
		}
		return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", o.Spec.Driver)}
	}
	return resources.Kind{
		GVK: gvk, Resource: "resourceslices", Singular: "resourceslice",
		New:     func() runtime.Object { return &resourcev1.ResourceSlice{} },
		NewList: func() runtime.Object { return &resourcev1.ResourceSliceList{} },
		Strategy: resources.Rules[*resourcev1.ResourceSlice]{
			GVK: gvk,
			PrepareCreate: func(o *resourcev1.ResourceSlice) {
				o.Generation = 1
				dropFromSlice(o, nil)
			},
			PrepareUpdate: func(o, old *resourcev1.ResourceSlice) {
				// Upstream compares before it drops.
				if !apiequality.Semantic.DeepEqual(o.Spec, old.Spec) {
					o.Generation = old.Generation + 1
				}
				dropFromSlice(o, old)
			},
			Validate: func(o *resourcev1.ResourceSlice) field.ErrorList {
				errs := resources.ValidateMeta(&o.ObjectMeta, false, apivalidation.NameIsDNSSubdomain)
				return append(errs, validateSlice(&o.Spec, nil)...)
			},
			ValidateUpdate: func(o, old *resourcev1.ResourceSlice) field.ErrorList {
				errs := resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)
				return append(errs, validateSlice(&o.Spec, &old.Spec)...)
			},
			WarnCreate: warn,
			WarnUpdate: func(o, _ *resourcev1.ResourceSlice) []string { return warn(o) },
		}.Strategy(),
		Fields: func(obj runtime.Object) fields.Set {
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: node(obj),
				resourcev1.ResourceSliceSelectorDriver:   obj.(*resourcev1.ResourceSlice).Spec.Driver,
			}
		},
		FieldNames: []string{resourcev1.ResourceSliceSelectorNodeName, resourcev1.ResourceSliceSelectorDriver},
		Index:      storage.IndexerFuncs{resourcev1.ResourceSliceSelectorNodeName: node},
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("Node", nodeDoc), resources.StringColumn("Driver", driverDoc), resources.StringColumn("Pool", poolDoc),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*resourcev1.ResourceSlice)
			return []any{o.Name, node(o), o.Spec.Driver, o.Spec.Pool.Name, resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

// Descriptions of columns.
var (
	sliceDoc  = resourcev1.ResourceSliceSpec{}.SwaggerDoc()
	nodeDoc   = sliceDoc["nodeName"]
	driverDoc = sliceDoc["driver"]
	// poolDoc k8s.io/api says otherwise since 0.37.
	poolDoc = "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.\n\n" +
		"It must not be longer than 253 characters and must consist of one or more DNS sub-domains separated by slashes. This field is immutable."
)

// AddToScheme registers the defaulting functions of the kinds and of their lists.
func AddToScheme(s *runtime.Scheme) error {
	resources.AddDefaults(s, func(o *resourcev1.ResourceClaim) { setClaimDefaults(&o.Spec) },
		func(l *resourcev1.ResourceClaimList) []resourcev1.ResourceClaim { return l.Items })
	resources.AddDefaults(s, func(o *resourcev1.ResourceClaimTemplate) { setClaimDefaults(&o.Spec.Spec) },
		func(l *resourcev1.ResourceClaimTemplateList) []resourcev1.ResourceClaimTemplate { return l.Items })
	resources.AddDefaults(s, setSliceDefaults, func(l *resourcev1.ResourceSliceList) []resourcev1.ResourceSlice { return l.Items })
	return nil
}

// usesListAttributes tells whether some device of a slice has attributes of several
// values, which are behind a gate that is off (DRAListTypeAttributes).
func usesListAttributes(s *resourcev1.ResourceSliceSpec) bool {
	return slices.ContainsFunc(s.Devices, func(d resourcev1.Device) bool {
		for _, a := range d.Attributes {
			if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
				return true
			}
		}
		return false
	})
}
