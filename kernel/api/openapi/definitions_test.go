package openapi_test

import (
	"reflect"
	"strings"
	"testing"

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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"pintle.dev/pintle/kernel/api/openapi"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

func ref(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }

// servedTypes is a scheme of every group that the server may serve.
func servedTypes(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, autoscalingv1.AddToScheme, autoscalingv2.AddToScheme,
		batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme,
		eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme,
		rbacv1.AddToScheme, resourcev1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme,
		v1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestEveryServedTypeHasADefinition(t *testing.T) {
	defs := openapi.GetOpenAPIDefinitions(ref)
	s := servedTypes(t)
	namer := apiopenapi.NewDefinitionNamer(s)
	n := 0
	for gvk, typ := range s.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(typ.PkgPath(), "meta/internalversion") {
			continue
		}
		name := openapiutil.GetCanonicalTypeName(reflect.New(typ).Interface())
		if _, ok := defs[name]; !ok {
			t.Errorf("%s (%s): no definition", gvk, name)
			continue
		}
		n++
		if strings.Contains(typ.PkgPath(), "/meta/") {
			continue // one type in many groups
		}
		_, ext := namer.GetDefinitionName(name)
		if got := ext["x-kubernetes-group-version-kind"]; got == nil {
			t.Errorf("%s (%s): the definition does not name its group, version and kind", gvk, name)
		}
	}
	if n < 150 {
		t.Errorf("checked %d types only", n)
	}
}

func TestReferencesResolve(t *testing.T) {
	used := map[string]bool{}
	defs := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { used[name] = true; return ref(name) })
	for name := range used {
		if _, ok := defs[name]; !ok {
			t.Errorf("%s is referred to and not defined", name)
		}
	}
	for name, d := range defs {
		for _, dep := range d.Dependencies {
			if _, ok := defs[dep]; !ok {
				t.Errorf("%s depends on %s, which is not defined", name, dep)
			}
		}
	}
}

// Server-side apply and strategic merge patches go by these.
func TestListExtensions(t *testing.T) {
	defs := openapi.GetOpenAPIDefinitions(ref)
	tests := []struct {
		model, field, ext string
		want              any
	}{
		{"io.k8s.api.core.v1.PodSpec", "containers", "x-kubernetes-list-type", "map"},
		{"io.k8s.api.core.v1.PodSpec", "containers", "x-kubernetes-patch-merge-key", "name"},
		{"io.k8s.api.core.v1.PodSpec", "containers", "x-kubernetes-patch-strategy", "merge"},
		{"io.k8s.api.core.v1.ServiceSpec", "ports", "x-kubernetes-list-map-keys", []any{"port", "protocol"}},
		{"io.k8s.api.apps.v1.DeploymentStatus", "conditions", "x-kubernetes-list-type", "map"},
		{"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers", "x-kubernetes-list-type", "set"},
		{"dev.pintle.kernel.v1alpha1.PluginSpec", "permissions", "x-kubernetes-list-type", "atomic"},
		{"dev.pintle.kernel.v1alpha1.PluginStatus", "provides", "x-kubernetes-list-type", "atomic"},
	}
	for _, tt := range tests {
		got := property(t, defs, tt.model, tt.field).Extensions[tt.ext]
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s.%s %s = %v, want %v", tt.model, tt.field, tt.ext, got, tt.want)
		}
	}
}

func property(t *testing.T, defs map[string]common.OpenAPIDefinition, model, field string) spec.Schema {
	t.Helper()
	d, ok := defs[model]
	if !ok {
		t.Fatalf("no definition %s", model)
	}
	p, ok := d.Schema.Properties[field]
	if !ok {
		t.Fatalf("%s has no field %s", model, field)
	}
	return p
}

// What `kubectl explain plugins` shows must be there and read as sentences.
func TestPluginFieldsAreExplained(t *testing.T) {
	defs := openapi.GetOpenAPIDefinitions(ref)
	for name, d := range defs {
		if !strings.HasPrefix(name, "dev.pintle.") {
			continue
		}
		if d.Schema.Description == "" {
			t.Errorf("%s: no description", name)
		}
		for field, p := range d.Schema.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s: no description", name, field)
			}
		}
	}
}

func BenchmarkGetOpenAPIDefinitions(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		openapi.GetOpenAPIDefinitions(ref)
	}
}
