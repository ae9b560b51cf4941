package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
)

// converted is a definition whose versions v1 (stored, with spec.size) and v2 (spec.length) a webhook converts.
func converted(plural string, client *apiextensionsv1.WebhookClientConfig) *apiextensionsv1.CustomResourceDefinition {
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	version := func(name, property string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{property: {Type: "integer"}}},
			}},
		}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".convert.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "convert.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", "size", true), version("v2", "length", false)},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ClientConfig: client, ConversionReviewVersions: []string{"v1"},
			}},
		},
	}
}

// converter answers each review of conversion by change, which is given the objects one by one; nil: it renames the field.
func converter(t *testing.T, change func(*unstructured.Unstructured)) *hook {
	t.Helper()
	return faultyHook(t, "converter", convertBy(func(objects []runtime.RawExtension, to string) []runtime.RawExtension {
		var out []runtime.RawExtension
		for _, o := range objects {
			u := &unstructured.Unstructured{}
			if err := u.UnmarshalJSON(o.Raw); err != nil {
				return nil
			}
			from, into := "size", "length"
			if strings.HasSuffix(to, "/v1") {
				from, into = into, from
			}
			if v, ok, _ := unstructured.NestedInt64(u.Object, "spec", from); ok {
				_ = unstructured.SetNestedField(u.Object, v, "spec", into)
				unstructured.RemoveNestedField(u.Object, "spec", from)
			}
			u.SetAPIVersion(to)
			if change != nil {
				change(u)
			}
			out = append(out, runtime.RawExtension{Object: u})
		}
		return out
	}))
}

func convertBy(convert func(objects []runtime.RawExtension, to string) []runtime.RawExtension) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		review := &apiextensionsv1.ConversionReview{}
		if err := json.NewDecoder(req.Body).Decode(review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		review.Response = &apiextensionsv1.ConversionResponse{
			UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess},
			ConvertedObjects: convert(review.Request.Objects, review.Request.DesiredAPIVersion),
		}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}
}

// customs makes definitions and gives clients of their resources by version.
type customs struct {
	crds    crdclient.Interface
	dynamic dynamic.Interface
}

func customsOf(t *testing.T, s *api.Server) customs {
	t.Helper()
	cfg := rest.CopyConfig(must(kubeconfig(s)))
	cfg.QPS = -1
	return customs{crdclient.NewForConfigOrDie(cfg), dynamic.NewForConfigOrDie(cfg)}
}

// define waits until all served versions of a definition are served.
func (c customs) define(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if _, err := c.crds.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := c.at(crd, crd.Spec.Versions[0].Name).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

func (c customs) at(crd *apiextensionsv1.CustomResourceDefinition, version string) dynamic.ResourceInterface {
	r := c.dynamic.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: version, Resource: crd.Spec.Names.Plural})
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		return r.Namespace("default")
	}
	return r
}

func custom(crd *apiextensionsv1.CustomResourceDefinition, version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": crd.Spec.Group + "/" + version, "kind": crd.Spec.Names.Kind, "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// TestConversion: a webhook converts custom resources between versions, where they are read, written, listed and watched.
func TestConversion(t *testing.T) {
	s := start(t, t.TempDir())
	c := customsOf(t, s)
	h := converter(t, nil)
	// By a service too, whose address is this machine's.
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost", Ports: []corev1.ServicePort{{Port: h.port}}}}
	if _, err := overTLS(t, s).CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path := "/review"
	for plural, client := range map[string]*apiextensionsv1.WebhookClientConfig{
		"lines":  {URL: &h.url, CABundle: h.ca},
		"curves": {Service: &apiextensionsv1.ServiceReference{Namespace: "default", Name: "hook", Path: &path, Port: &h.port}, CABundle: h.ca},
	} {
		t.Run(plural, func(t *testing.T) {
			ctx := t.Context()
			crd := converted(plural, client)
			c.define(t, crd)
			one, two := c.at(crd, "v1"), c.at(crd, "v2")
			watching, err := two.Watch(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			if _, err := one.Create(ctx, custom(crd, "v1", "a", map[string]any{"size": int64(3)}), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := two.Create(ctx, custom(crd, "v2", "b", map[string]any{"length": int64(4)}), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for i, name := range []string{"a", "b"} {
				want := int64(3 + i)
				if got, err := one.Get(ctx, name, metav1.GetOptions{}); err != nil || fmt.Sprint(got.Object["spec"]) != fmt.Sprintf("map[size:%d]", want) {
					t.Errorf("%s in v1: %v, %v", name, got, err)
				}
				if got, err := two.Get(ctx, name, metav1.GetOptions{}); err != nil || fmt.Sprint(got.Object["spec"]) != fmt.Sprintf("map[length:%d]", want) {
					t.Errorf("%s in v2: %v, %v", name, got, err)
				}
				e := <-watching.ResultChan()
				if u, ok := e.Object.(*unstructured.Unstructured); !ok || u.GetName() != name || u.GetAPIVersion() != "convert.example.com/v2" || fmt.Sprint(u.Object["spec"]) != fmt.Sprintf("map[length:%d]", want) {
					t.Errorf("watched %s: %+v", name, e)
				}
			}
			list, err := two.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != 2 || list.GetAPIVersion() != "convert.example.com/v2" || list.Items[0].Object["spec"].(map[string]any)["length"] == nil {
				t.Errorf("list: %v, %v", list, err)
			}
			applied := custom(crd, "v2", "a", map[string]any{"length": int64(9)})
			if got, err := two.Apply(ctx, "a", applied, metav1.ApplyOptions{FieldManager: "m", Force: true}); err != nil || fmt.Sprint(got.Object["spec"]) != "map[length:9]" {
				t.Errorf("apply in v2: %v, %v", got, err)
			}
			if got, err := one.Get(ctx, "a", metav1.GetOptions{}); err != nil || fmt.Sprint(got.Object["spec"]) != "map[size:9]" {
				t.Errorf("applied, in v1: %v, %v", got, err)
			}
		})
	}
}

// TestBadConverters: a webhook of conversion that answers badly, or not, gets nothing into the store and nothing out of it,
// in words that say why; who reads the stored version is not kept from it.
func TestBadConverters(t *testing.T) {
	s := start(t, t.TempDir())
	c := customsOf(t, s)
	other := converter(t, nil)
	path := "/api/v1/namespaces"
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	url := func(h *hook) *apiextensionsv1.WebhookClientConfig {
		return &apiextensionsv1.WebhookClientConfig{URL: &h.url, CABundle: h.ca}
	}
	own := s.URL() + path
	tests := map[string]struct {
		client *apiextensionsv1.WebhookClientConfig
		want   string
		slow   bool
	}{
		"hangs": {url(faultyHook(t, "hangs", func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			select {
			case <-req.Context().Done():
			case <-hang:
			}
		})), "exceeded", true}, // the deadline of the request, or the client's
		"rubbish": {url(faultyHook(t, "rubbish", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("}{")) })), "did not find expected node content", false},
		"empties": {url(faultyHook(t, "empty", func(http.ResponseWriter, *http.Request) {})), "0-length response", false},
		"fails":   {url(faultyHook(t, "fails", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "boom", 500) })), "boom", false},
		"redirects": {url(faultyHook(t, "redirects", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, other.url, http.StatusTemporaryRedirect)
		})), "redirects are not followed", false},
		"larges": {url(faultyHook(t, "large", func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		})), "answered with more than", false},
		"others": {url(faultyHook(t, "uid", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"uid":"x","result":{"status":"Success"}}}`))
		})), `expected response.uid=`, false},
		"fews":       {url(faultyHook(t, "few", convertBy(func([]runtime.RawExtension, string) []runtime.RawExtension { return nil }))), "returned 0 objects, expected 1", false},
		"versions":   {url(converter(t, func(u *unstructured.Unstructured) { u.SetAPIVersion("convert.example.com/v3") })), "invalid groupVersion (expected convert.example.com/v2, received convert.example.com/v3)", false},
		"kinds":      {url(converter(t, func(u *unstructured.Unstructured) { u.SetKind("Pod") })), "invalid kind", false},
		"names":      {url(converter(t, func(u *unstructured.Unstructured) { u.SetName("another") })), `must have the same name`, false},
		"namespaces": {url(converter(t, func(u *unstructured.Unstructured) { u.SetNamespace("another") })), "must have the same namespace", false},
		"uids":       {url(converter(t, func(u *unstructured.Unstructured) { u.SetUID("another") })), "must have the same UID", false},
		"metas":      {url(converter(t, func(u *unstructured.Unstructured) { delete(u.Object, "metadata") })), "must have the same name", false},
		"labels":     {url(converter(t, func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"not a label": "x"}) })), "invalid metadata", false},
		"strangers":  {&apiextensionsv1.WebhookClientConfig{URL: &other.url, CABundle: newHook(t, "unused", nil).ca}, "certificate signed by unknown authority", false},
		"itselfs":    {&apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "default", Name: "kubernetes", Path: &path}}, "service default/kubernetes is this API server", false},
		"addresses":  {&apiextensionsv1.WebhookClientConfig{URL: &own, CABundle: s.PKI().CAPEM()}, `User "system:anonymous" cannot create resource "namespaces"`, false},
		"nowheres":   {&apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "default", Name: "nowhere", Path: &path}}, `"nowhere" not found`, false},
	}
	var group sync.WaitGroup
	for plural, tt := range tests {
		if tt.slow && testing.Short() {
			continue
		}
		group.Go(func() {
			ctx := context.Background()
			crd := converted(plural, tt.client)
			definitions := c.crds.ApiextensionsV1().CustomResourceDefinitions()
			if _, err := definitions.Create(ctx, crd, metav1.CreateOptions{}); err != nil {
				t.Errorf("%s: %v", plural, err)
				return
			}
			one, two := c.at(crd, "v1"), c.at(crd, "v2")
			for {
				_, err := one.Create(ctx, custom(crd, "v1", "a", map[string]any{"size": int64(3)}), metav1.CreateOptions{})
				if err == nil {
					break
				}
				if !apierrors.IsNotFound(err) {
					t.Errorf("%s: %v", plural, err)
					return
				}
			}
			if _, err := two.Get(ctx, "a", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: get: %v, want %q", plural, err, tt.want)
			}
			if tt.slow {
				return
			}
			yes := true
			unsafe := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
			if err := two.Delete(ctx, "a", unsafe); err == nil || apierrors.IsStoreReadError(err) || strings.Contains(err.Error(), "corrupt") {
				t.Errorf("%s: unsafe delete of what is whole: %v", plural, err)
			}
			if _, err := two.List(ctx, metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: list: %v, want %q", plural, err, tt.want)
			}
			if made, err := two.Create(ctx, custom(crd, "v2", "b", map[string]any{"length": int64(3)}), metav1.CreateOptions{}); err == nil {
				t.Errorf("%s: create in v2: %v", plural, made)
			}
			if got, err := one.Get(ctx, "a", metav1.GetOptions{}); err != nil || fmt.Sprint(got.Object["spec"]) != "map[size:3]" {
				t.Errorf("%s: in the stored version: %v, %v", plural, got, err)
			}
			if err := definitions.Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("%s: delete: %v", plural, err)
			}
		})
	}
	group.Wait()
	if len(other.seen()) > 0 {
		t.Error("a redirect was followed")
	}
}

// A webhook that leaves a field of the spec out is believed, as upstream's server believes
// it: what it says of a version is what clients of that version see. Nothing crashes, and
// what is stored keeps the field until a client of the other version writes the object.
func TestConverterThatLosesFields(t *testing.T) {
	s := start(t, t.TempDir())
	c := customsOf(t, s)
	h := converter(t, func(u *unstructured.Unstructured) { unstructured.RemoveNestedField(u.Object, "spec", "length") })
	ctx := t.Context()
	crd := converted("losses", &apiextensionsv1.WebhookClientConfig{URL: &h.url, CABundle: h.ca})
	c.define(t, crd)
	one, two := c.at(crd, "v1"), c.at(crd, "v2")
	made, err := one.Create(ctx, custom(crd, "v1", "a", map[string]any{"size": int64(3)}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := func(u *unstructured.Unstructured) string { return fmt.Sprint(u.Object["spec"]) }
	lost, err := two.Get(ctx, "a", metav1.GetOptions{})
	if err != nil || spec(lost) != "map[]" {
		t.Fatalf("in v2: %v, %v; want the webhook's answer, without the field", lost, err)
	}
	if list, err := two.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 1 || spec(&list.Items[0]) != "map[]" {
		t.Errorf("the list in v2: %v, %v", list, err)
	}
	if got, err := one.Get(ctx, "a", metav1.GetOptions{}); err != nil || spec(got) != "map[size:3]" || got.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("after reads in v2 it is stored as %v, %v; want it unchanged", got, err)
	}
	// A write of the stored version does not pass the webhook.
	made.SetLabels(map[string]string{"a": "b"})
	if got, err := one.Update(ctx, made, metav1.UpdateOptions{}); err != nil || spec(got) != "map[size:3]" {
		t.Errorf("an update in v1: %v, %v", got, err)
	}
	// A write of the other version stores what the client has, and that has no such field.
	if lost, err = two.Get(ctx, "a", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	lost.SetLabels(map[string]string{"a": "c"})
	if _, err := two.Update(ctx, lost, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an update in v2: %v", err)
	}
	if got, err := one.Get(ctx, "a", metav1.GetOptions{}); err != nil || spec(got) != "map[]" || got.GetLabels()["a"] != "c" {
		t.Errorf("after a write in v2: %v, %v; want it as that client wrote it", got, err)
	}
	if err := two.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete in v2: %v", err)
	}
}
