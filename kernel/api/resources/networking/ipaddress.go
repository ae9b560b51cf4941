package networking

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pintle.dev/pintle/kernel/api/resources"
)

// parentDoc is the column's description, which k8s.io/api says otherwise since 0.37.
const parentDoc = "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object."

var parentPath = specPath.Child("parentRef")

func ipAddressKind() resources.Kind {
	gvk := networkingv1.SchemeGroupVersion.WithKind("IPAddress")
	return resources.Kind{
		GVK: gvk, Resource: "ipaddresses", Singular: "ipaddress", ShortNames: []string{"ip"},
		New:     func() runtime.Object { return &networkingv1.IPAddress{} },
		NewList: func() runtime.Object { return &networkingv1.IPAddressList{} },
		Strategy: addressStrategy{resources.Rules[*networkingv1.IPAddress]{
			GVK:            gvk,
			Validate:       validateIPAddress,
			ValidateUpdate: validateIPAddressUpdate,
		}.Strategy()},
		Columns: []metav1.TableColumnDefinition{
			resources.NameColumn(),
			resources.StringColumn("ParentRef", parentDoc),
		},
		Row: func(obj runtime.Object) ([]any, error) {
			o := obj.(*networkingv1.IPAddress)
			// Upstream's rows have the age too, for which it has no column.
			return []any{o.Name, parentCell(o.Spec.ParentRef), resources.AgeCell(o.CreationTimestamp)}, nil
		},
	}
}

// addressStrategy makes no names: an address cannot be drawn.
type addressStrategy struct{ resources.Strategy }

// GenerateName implements names.NameGenerator.
func (addressStrategy) GenerateName(prefix string) string { return prefix }

func parentCell(p *networkingv1.ParentReference) string {
	if p == nil {
		return none
	}
	cell := strings.ToLower(schema.GroupResource{Group: p.Group, Resource: p.Resource}.String())
	if p.Namespace != "" {
		cell += "/" + p.Namespace
	}
	return cell + "/" + p.Name
}

// addressName: an IPAddress is named by the address, in its canonical form.
func addressName(name string, _ bool) []string {
	var msgs []string
	for _, err := range validation.IsValidIP(&field.Path{}, name) {
		msgs = append(msgs, err.Detail)
	}
	return msgs
}

func validateIPAddress(o *networkingv1.IPAddress) field.ErrorList {
	errs := resources.ValidateMeta(&o.ObjectMeta, false, addressName)
	p := o.Spec.ParentRef
	if p == nil {
		return append(errs, field.Required(parentPath, ""))
	}
	if p.Group != "" { // services, of the core group, have none
		errs = append(errs, invalid(parentPath.Child("group"), p.Group, validation.IsDNS1123Subdomain(p.Group))...)
	}
	for _, part := range []struct {
		name, value string
		required    bool
	}{{"resource", p.Resource, true}, {"name", p.Name, true}, {"namespace", p.Namespace, false}} {
		switch path := parentPath.Child(part.name); {
		case part.value != "":
			errs = append(errs, invalid(path, part.value, content.IsPathSegmentName(part.value))...)
		case part.required:
			errs = append(errs, field.Required(path, ""))
		}
	}
	return errs
}

func validateIPAddressUpdate(o, old *networkingv1.IPAddress) field.ErrorList {
	errs := validateIPAddress(o)
	errs = append(errs, resources.ValidateMetaUpdate(&o.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, apivalidation.ValidateImmutableField(o.Spec.ParentRef, old.Spec.ParentRef, parentPath)...)
}
