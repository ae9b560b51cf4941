package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

func widgets() *apiextensionsv1.CustomResourceDefinition {
	one := 1.0
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
						Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "integer", Minimum: &one}},
					}},
				}},
			}},
		},
	}
}

// A custom resource is served, validated, listed by discovery and described
// by OpenAPI as soon as its definition is established.
func TestCustomResources(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	cfg := must(kubeconfig(s))
	crds := crdclient.NewForConfigOrDie(cfg).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := crds.Create(ctx, widgets(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		crd, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	})
	client := dynamic.NewForConfigOrDie(cfg).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	widget := func(size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"size": size},
		}}
	}
	waitFor(t, func() bool {
		_, err := client.Create(ctx, widget(0), metav1.CreateOptions{})
		if apierrors.IsNotFound(err) {
			return false
		}
		if !apierrors.IsInvalid(err) {
			t.Errorf("invalid widget: %v", err)
		}
		return true
	})
	if _, err := client.Create(ctx, widget(1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := client.Apply(ctx, "w", widget(2), metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); size != 2 {
		t.Errorf("applied: %v", got)
	}
	rc := overTLS(t, s).Discovery().RESTClient()
	for _, path := range []string{"/apis", "/openapi/v3", "/openapi/v2"} {
		waitFor(t, func() bool {
			body, err := rc.Get().AbsPath(path).DoRaw(ctx)
			return err == nil && strings.Contains(string(body), "example.com")
		})
	}
	if err := crds.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		_, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{})
		body, _ := rc.Get().AbsPath("/apis").DoRaw(ctx)
		return apierrors.IsNotFound(err) && !strings.Contains(string(body), "example.com")
	})
}

// API-10: discovery and OpenAPI say what is served, and a table prints it.
func TestDocuments(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := overTLS(t, s)
	version, err := c.Discovery().ServerVersion()
	if err != nil || !strings.HasPrefix(version.GitVersion, "v1.36.") {
		t.Errorf("version: %v, %v", version, err)
	}
	_, lists, err := c.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			served[l.GroupVersion+" "+r.Name] = true
		}
	}
	for _, want := range []string{
		"v1 pods", "v1 pods/binding", "v1 pods/eviction", "v1 pods/log", "v1 pods/exec", "v1 pods/status", "v1 nodes/proxy",
		"v1 serviceaccounts/token", "v1 bindings", "events.k8s.io/v1 events", "apiextensions.k8s.io/v1 customresourcedefinitions",
		"authorization.k8s.io/v1 subjectaccessreviews",
	} {
		if !served[want] {
			t.Errorf("not served: %s", want)
		}
	}
	rc := c.Discovery().RESTClient()
	var doc struct {
		Components struct{ Schemas map[string]any }
		Paths      map[string]any
	}
	body, err := rc.Get().AbsPath("/openapi/v3/api/v1").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Components.Schemas["io.k8s.api.core.v1.Pod"] == nil || doc.Paths["/api/v1/namespaces/{namespace}/pods/{name}/log"] == nil {
		t.Error("the document of core/v1 lacks pods")
	}
	// The document is the same when asked for again.
	again, err := rc.Get().AbsPath("/openapi/v3/api/v1").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil || string(again) != string(body) {
		t.Errorf("second fetch differs (%v)", err)
	}
	body, err = rc.Get().AbsPath("/api/v1/namespaces").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil || len(table.Rows) < 4 || table.ColumnDefinitions[0].Name != "Name" {
		t.Errorf("table: %s, %v", body, err)
	}
}

// TestManyDefinitions: some hundred definitions that are made at once are all established
// and listed, and nothing of them is left when they are deleted.
func TestManyDefinitions(t *testing.T) {
	const many = 200
	s := start(t, t.TempDir())
	c := customsOf(t, s)
	definitions := c.crds.ApiextensionsV1().CustomResourceDefinitions()
	resources := overTLS(t, s).Discovery()
	// listed are the resources of the group in discovery.
	listed := func() int {
		list, err := resources.ServerResourcesForGroupVersion("many.example.com/v1")
		if err != nil {
			return 0
		}
		return len(list.APIResources)
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range many {
		group.Go(func() error {
			crd := widgets()
			name := fmt.Sprintf("widget%d", i)
			crd.Name, crd.Spec.Group = name+"s.many.example.com", "many.example.com"
			crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: name + "s", Singular: name, Kind: "Widget" + fmt.Sprint(i), ListKind: "Widget" + fmt.Sprint(i) + "List"}
			_, err := definitions.Create(ctx, crd, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	waitEach(t, func() bool {
		list, err := definitions.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != many {
			t.Fatalf("%d definitions, %v; want %d", len(list.Items), err, many)
		}
		return !slices.ContainsFunc(list.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool {
			return !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
			})
		})
	})
	waitEach(t, func() bool { return listed() == many })
	last := c.dynamic.Resource(schema.GroupVersionResource{Group: "many.example.com", Version: "v1", Resource: fmt.Sprintf("widget%ds", many-1)})
	waitEach(t, func() bool {
		list, err := last.List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	if err := definitions.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	waitEach(t, func() bool {
		list, err := definitions.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 0
	})
	waitEach(t, func() bool {
		groups, err := resources.ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		_, err = last.List(t.Context(), metav1.ListOptions{})
		return apierrors.IsNotFound(err) && !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == "many.example.com" })
	})
}

// waitEach is waitFor for questions whose answers are large: it asks four times a second.
func waitEach(t *testing.T, ok func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 250*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) { return ok(), nil }); err != nil {
		t.Fatal(err)
	}
}
