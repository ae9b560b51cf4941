package customopenapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-openapi/pkg/handler3"
)

func definition(name string, generation int64, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: name + "s.example.com", UID: types.UID("u-" + name), Generation: generation},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: name + "s", Singular: name, Kind: strings.ToUpper(name), ListKind: strings.ToUpper(name) + "List"}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}},
	}
	for _, v := range versions {
		v, unserved := strings.CutSuffix(v, "!")
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: v, Served: !unserved, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Description: fmt.Sprintf("%s of generation %d.", name, generation)},
		}})
	}
	return crd
}

// service serves documents as the API server does.
func service(t *testing.T) (*documents, func(path string) string) {
	t.Helper()
	v3, m := handler3.NewOpenAPIService(), mux.NewPathRecorderMux("test")
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", m); err != nil {
		t.Fatal(err)
	}
	d := &documents{service: v3, log: slog.New(slog.DiscardHandler), versions: map[schema.GroupVersion]*document{}}
	return d, func(path string) string {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK {
			return w.Result().Status
		}
		return w.Body.String()
	}
}

func index(t *testing.T, get func(string) string) map[string]string {
	t.Helper()
	var list struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		}
	}
	if err := json.Unmarshal([]byte(get("/openapi/v3")), &list); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for path, at := range list.Paths {
		out[path] = at.ServerRelativeURL
	}
	return out
}

// TestDocuments: they are of what is served now, by a hash that changes with it.
func TestDocuments(t *testing.T) {
	d, get := service(t)
	const one, two = "apis/example.com/v1", "apis/example.com/v2"
	paths := func() []string { return slices.Sorted(maps.Keys(index(t, get))) }
	want := func(what string, want ...string) {
		t.Helper()
		if got := paths(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	holds := func(path string, texts ...string) {
		t.Helper()
		for range 2 { // what was sent once is sent again
			body := get("/openapi/v3/" + path)
			for _, text := range texts {
				text, absent := strings.CutPrefix(text, "!")
				if strings.Contains(body, text) == absent {
					t.Errorf("%s holds %q: %t: %.200s", path, text, !absent, body)
				}
			}
		}
	}
	want("nothing")
	d.set(definition("a", 1, "v1", "v2!"))
	want("one version", one)
	holds(one, "a of generation 1.", "/apis/example.com/v1/namespaces/{namespace}/as/{name}")
	first := index(t, get)[one]
	d.set(definition("a", 1, "v1", "v2!"))
	if again := index(t, get)[one]; again != first {
		t.Errorf("%s became %s, and nothing changed", first, again)
	}
	d.set(definition("b", 1, "v1", "v2"))
	want("two definitions", one, two)
	holds(one, "a of generation 1.", "b of generation 1.")
	holds(two, "b of generation 1.", "!a of generation 1.")
	if again := index(t, get)[one]; again == first {
		t.Error("a document changed, and its hash did not")
	}
	d.set(definition("a", 2, "v1", "v2"))
	holds(one, "a of generation 2.", "!a of generation 1.", "b of generation 1.")
	holds(two, "a of generation 2.")
	d.set(definition("a", 3, "v1!", "v2"))
	holds(one, "!a of generation", "b of generation 1.")
	gone := definition("b", 1, "v1", "v2")
	gone.Status.Conditions = nil
	d.set(gone)
	want("one that is not established", two)
	d.update("as.example.com", "example.com", nil)
	want("the end")
	d.update("as.example.com", "example.com", nil)
	d.set(definition("a", 4, "v1"))
	holds(one, "a of generation 4.")
}

// TestConflicts: two definitions of one kind, of which one alone can be served, break nothing.
func TestConflicts(t *testing.T) {
	d, get := service(t)
	thief := definition("a", 1, "v1")
	thief.Name, thief.UID = "thieves.example.com", "thief"
	d.set(definition("a", 1, "v1"))
	d.set(definition("b", 1, "v1"))
	d.set(thief)
	d.update("thieves.example.com", "example.com", nil)
	if body := get("/openapi/v3/apis/example.com/v1"); !strings.Contains(body, "a of generation 1.") {
		t.Errorf("%.200s", body)
	}
}

// TestAtOnce: definitions change while documents are read.
func TestAtOnce(t *testing.T) {
	d, get := service(t)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for g := range int64(25) {
				d.set(definition(fmt.Sprintf("a%d", i), g, "v1"))
			}
		})
		group.Go(func() {
			for range 25 {
				get("/openapi/v3")
				get("/openapi/v3/apis/example.com/v1")
			}
		})
	}
	group.Wait()
	for i := range 4 {
		if body := get("/openapi/v3/apis/example.com/v1"); !strings.Contains(body, fmt.Sprintf("a%d of generation 24.", i)) {
			t.Errorf("%d: %.200s", i, body)
		}
	}
}
