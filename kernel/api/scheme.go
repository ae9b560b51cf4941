package api

import (
	"fmt"
	"reflect"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/admissionregistration"
	"pintle.dev/pintle/kernel/api/resources/apiregistration"
	"pintle.dev/pintle/kernel/api/resources/apps"
	"pintle.dev/pintle/kernel/api/resources/autoscaling"
	"pintle.dev/pintle/kernel/api/resources/batch"
	"pintle.dev/pintle/kernel/api/resources/certificates"
	"pintle.dev/pintle/kernel/api/resources/flowcontrol"
	"pintle.dev/pintle/kernel/api/resources/networking"
	"pintle.dev/pintle/kernel/api/resources/resource"
)

// servedKinds lists all kinds, addDefaults their defaulting functions. local tells
// the group versions that are served here, access answers what claims of devices ask.
func servedKinds(opts resources.Options, local func(schema.GroupVersion) bool, access resource.Access) ([]resources.Kind, error) {
	kinds, err := resources.All(opts)
	return slices.Concat(kinds, admissionregistration.Kinds(), apiregistration.Kinds(local), apps.Kinds(), autoscaling.Kinds(), batch.Kinds(), certificates.Kinds(), flowcontrol.Kinds(), networking.Kinds(), resource.Kinds(access)), err
}

func addDefaults(s *runtime.Scheme) error {
	return firstError(resources.AddToScheme(s), admissionregistration.AddToScheme(s), apps.AddToScheme(s), autoscaling.AddToScheme(s), batch.AddToScheme(s),
		flowcontrol.AddToScheme(s), networking.AddToScheme(s), resource.AddToScheme(s))
}

// adders registers the types of the groups that can be served.
var adders = []func(*runtime.Scheme) error{
	corev1.AddToScheme, admissionregistrationv1.AddToScheme, apiregistrationv1.AddToScheme, appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme,
	autoscalingv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, discoveryv1.AddToScheme,
	eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme,
	rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
}

// newScheme registers the versioned types, each of them as its group's
// internal version too, and what the kinds say of their field labels.
func newScheme(kinds []resources.Kind, more ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	for _, add := range append(append([]func(*runtime.Scheme) error(nil), adders...), more...) {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("scheme: %w", err)
		}
	}
	s.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	addInternal(s, kinds)
	if err := addEventConversions(s); err != nil {
		return nil, fmt.Errorf("scheme: events: %w", err)
	}
	if err := addOptionConversions(s); err != nil {
		return nil, fmt.Errorf("scheme: options: %w", err)
	}
	for _, k := range kinds {
		if len(k.FieldNames) == 0 {
			continue
		}
		if err := s.AddFieldLabelConversionFunc(k.GVK, fieldLabels(k)); err != nil {
			return nil, fmt.Errorf("scheme: field labels of %s: %w", k.Resource, err)
		}
	}
	return s, nil
}

// addInternal registers each API type under its group's internal version. A kind
// of several versions has the one that it is stored in there, in all its groups.
func addInternal(s *runtime.Scheme, kinds []resources.Kind) {
	internal := func(group, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: runtime.APIVersionInternal, Kind: kind}
	}
	for _, k := range kinds {
		for _, gv := range k.Also {
			s.AddKnownTypeWithName(internal(gv.Group, k.GVK.Kind), k.New())
			s.AddKnownTypeWithName(internal(gv.Group, k.GVK.Kind+"List"), k.NewList())
		}
	}
	metaPkg := reflect.TypeFor[metav1.Status]().PkgPath()
	for gvk, t := range s.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || t.PkgPath() == metaPkg || s.Recognizes(internal(gvk.Group, gvk.Kind)) {
			continue
		}
		s.AddKnownTypeWithName(internal(gvk.Group, gvk.Kind), reflect.New(t).Interface().(runtime.Object))
	}
}

// fieldLabels admits the field selectors of a kind that has some of its own.
// A kind without goes by the scheme's rule: name and namespace only.
func fieldLabels(k resources.Kind) runtime.FieldLabelConversionFunc {
	known := map[string]bool{"metadata.name": true}
	if k.Strategy == nil || k.Strategy.NamespaceScoped() {
		known["metadata.namespace"] = true
	}
	for _, f := range k.FieldNames {
		known[f] = true
	}
	isPod := k.GVK.Group == "" && k.GVK.Kind == "Pod"
	refused := "field label not supported: %s"
	if k.GVK == batchv1.SchemeGroupVersion.WithKind("Job") {
		refused = "field label %q not supported for Job" // upstream's words for this kind
	}
	if k.GVK.Group == resourcev1.GroupName {
		refused = fmt.Sprintf("field label not supported for %s: ", k.GVK) + "%s"
	}
	return func(label, value string) (string, string, error) {
		switch {
		case known[label]:
			return label, value, nil
		case isPod && label == "spec.host":
			// spec.nodeName had this name before v1.
			return "spec.nodeName", value, nil
		}
		return "", "", fmt.Errorf(refused, label)
	}
}
