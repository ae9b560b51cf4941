package apiregistration

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	internal "k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/validation"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Kinds lists the served kind. local tells the group versions that the kernel itself
// serves; nil: none is known.
func Kinds(local func(schema.GroupVersion) bool) []resources.Kind {
	gvk := apiregistrationv1.SchemeGroupVersion.WithKind("APIService")
	type service = apiregistrationv1.APIService
	return []resources.Kind{{
		GVK: gvk, Resource: "apiservices", Singular: "apiservice", Categories: []string{"api-extensions"},
		New:     func() runtime.Object { return &service{} },
		NewList: func() runtime.Object { return &apiregistrationv1.APIServiceList{} },
		Strategy: resources.Rules[*service]{
			GVK: gvk, Reset: [][]any{{"status"}}, Conditional: true,
			PrepareCreate: func(o *service) {
				o.Status = apiregistrationv1.APIServiceStatus{}
				if o.Spec.Service == nil && o.Labels[v1alpha1.PluginLabel] == "" {
					helper.SetAPIServiceCondition(o, helper.NewLocalAvailableAPIServiceCondition())
				}
			},
			PrepareUpdate: func(o, old *service) { o.Status = old.Status },
			Validate: func(o *service) field.ErrorList {
				return append(validate(o, validation.ValidateAPIService), validateOwner(o, local)...)
			},
			ValidateUpdate: func(o, old *service) field.ErrorList {
				return append(validateChange(o, old, validation.ValidateAPIServiceUpdate), validateOwner(o, local)...)
			},
		}.Strategy(),
		Status: resources.Rules[*service]{
			GVK: gvk, Reset: [][]any{{"spec"}, {"metadata"}}, Conditional: true,
			PrepareUpdate: func(o, old *service) {
				o.Spec = old.Spec
				o.Labels, o.Annotations = old.Labels, old.Annotations
				o.Finalizers, o.OwnerReferences = old.Finalizers, old.OwnerReferences
			},
			ValidateUpdate: func(o, old *service) field.ErrorList {
				return validateChange(o, old, validation.ValidateAPIServiceStatusUpdate)
			},
		}.Strategy(),
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("Service", "The reference to the service that hosts this API endpoint."),
			resources.StringColumn("Available", "Whether this service is available."),
			resources.AgeColumn(),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*service)
			where := "Local"
			if plugin := o.Labels[v1alpha1.PluginLabel]; plugin != "" {
				where = "plugin/" + plugin
			}
			if s := o.Spec.Service; s != nil {
				where = s.Namespace + "/" + s.Name
			}
			return []any{o.Name, where, availableCell(o), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}}
}

func availableCell(o *apiregistrationv1.APIService) string {
	c := helper.GetAPIServiceConditionByType(o, apiregistrationv1.Available)
	switch {
	case c == nil:
		return string(apiregistrationv1.ConditionUnknown)
	case c.Status == apiregistrationv1.ConditionTrue || c.Reason == "":
		return string(c.Status)
	}
	return fmt.Sprintf("%s (%s)", c.Status, c.Reason)
}

// validateOwner keeps the kernel's own group versions from being given to others.
func validateOwner(o *apiregistrationv1.APIService, local func(schema.GroupVersion) bool) field.ErrorList {
	gv := schema.GroupVersion{Group: o.Spec.Group, Version: o.Spec.Version}
	if o.Spec.Service == nil || local == nil || !local(gv) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec", "service"), fmt.Sprintf("%s is served by this server itself", gv))}
}

// validate asks kube-aggregator's validation, which is of the internal type.
func validate(o *apiregistrationv1.APIService, by func(context.Context, *internal.APIService) field.ErrorList) field.ErrorList {
	in, err := toInternal(o)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return by(context.Background(), in)
}

func validateChange(o, old *apiregistrationv1.APIService, by func(_ context.Context, o, old *internal.APIService) field.ErrorList) field.ErrorList {
	before, err := toInternal(old)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validate(o, func(ctx context.Context, now *internal.APIService) field.ErrorList { return by(ctx, now, before) })
}

func toInternal(o *apiregistrationv1.APIService) (*internal.APIService, error) {
	out := &internal.APIService{}
	if err := apiregistrationv1.Convert_v1_APIService_To_apiregistration_APIService(o.DeepCopy(), out, nil); err != nil {
		return nil, fmt.Errorf("read APIService %s: %w", o.Name, err)
	}
	return out, nil
}
