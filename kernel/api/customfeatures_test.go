package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"
)

// definitionOf reads a definition of group GROUP; its schema is indented by two.
func definitionOf(t *testing.T, plural, names, scope, versions string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	text := fmt.Sprintf(`
metadata: {name: %[1]s.features.example.com}
spec:
  group: features.example.com
  scope: %[3]s
  names: {plural: %[1]s, singular: %[4]s, kind: %[5]s, listKind: %[5]sList%[2]s}
  versions:
%[6]s`, plural, names, scope, strings.ToLower(kind), kind, versions)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), crd); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return crd
}

const everything = `
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Many, type: integer, jsonPath: .spec.replicas, priority: 1}
    selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.replicas}]
    schema:
      openAPIV3Schema:
        type: object
        description: A shade of something.
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: "!has(self.low) || !has(self.high) || self.low <= self.high", messageExpression: "self.low > 0 ? 'low is above high' : 'low is not positive, and above high'", fieldPath: .low, reason: FieldValueForbidden}
            properties:
              color: {type: string, default: red, enum: [red, green, blue, black]}
              replicas: {type: integer, default: 1, minimum: 0}
              low: {type: integer}
              high: {type: integer}
              fixed: {type: string, x-kubernetes-validations: [{rule: "self == oldSelf", message: fixed is fixed}]}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              either: {x-kubernetes-int-or-string: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, value: {type: string, default: none}}}
          status:
            type: object
            properties: {replicas: {type: integer}, selector: {type: string}}
`

// TestCustomFeatures: what a definition says of its resources holds.
func TestCustomFeatures(t *testing.T) {
	s := start(t, t.TempDir())
	ctx := t.Context()
	c := customsOf(t, s)
	ask := asker(t, s)
	definitions := c.crds.ApiextensionsV1().CustomResourceDefinitions()
	crd := definitionOf(t, "shades", ", shortNames: [sh], categories: [all, paints]", "Namespaced", everything)
	c.define(t, crd)
	shades := c.at(crd, "v1")
	const path = "/apis/features.example.com/v1/namespaces/default/shades"

	create := func(t *testing.T, name string, spec map[string]any) *unstructured.Unstructured {
		t.Helper()
		made, err := shades.Create(ctx, custom(crd, "v1", name, spec), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	at := func(u *unstructured.Unstructured, fields ...string) string {
		v, _, _ := unstructured.NestedFieldNoCopy(u.Object, fields...)
		text, _ := json.Marshal(v)
		return string(text)
	}

	t.Run("defaults and pruning", func(t *testing.T) {
		got := create(t, "d", map[string]any{"unknown": "x", "free": map[string]any{"kept": "x"}, "either": "10%", "parts": []any{map[string]any{"name": "a", "gone": "x"}}})
		if want := `{"color":"red","either":"10%","free":{"kept":"x"},"parts":[{"name":"a","value":"none"}],"replicas":1}`; at(got, "spec") != want {
			t.Errorf("%s, want %s", at(got, "spec"), want)
		}
		for level, want := range map[string]int{"Strict": http.StatusBadRequest, "Warn": http.StatusCreated, "Ignore": http.StatusCreated} {
			res, body := ask("POST", path+"?dryRun=All&fieldValidation="+level, `{"apiVersion":"features.example.com/v1","kind":"Shade","metadata":{"name":"x"},"spec":{"unknown":1}}`, "Content-Type", "application/json")
			if res.StatusCode != want || (res.Header.Get("Warning") != "") != (level == "Warn") {
				t.Errorf("%s: %s %v %s", level, res.Status, res.Header["Warning"], body)
			}
		}
	})
	t.Run("rules", func(t *testing.T) {
		for want, spec := range map[string]map[string]any{
			"spec.low: Forbidden: low is above high":           {"low": int64(3), "high": int64(2)},
			`spec.color: Unsupported value: "pink"`:            {"color": "pink"},
			"spec.replicas: Invalid value: -1":                 {"replicas": int64(-1)},
			"spec.parts[1]: Duplicate value":                   {"parts": []any{map[string]any{"name": "a"}, map[string]any{"name": "a"}}},
			"spec.parts[0].name: Required value":               {"parts": []any{map[string]any{"value": "a"}}},
			`spec.either: Invalid value: "array"`:              {"either": []any{}},
			"spec.low: Invalid value: \"string\": spec.low in": {"low": "1"},
		} {
			if _, err := shades.Create(ctx, custom(crd, "v1", "x", spec), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", spec, err, want)
			}
		}
		made := create(t, "transition", map[string]any{"fixed": "a"})
		_ = unstructured.SetNestedField(made.Object, "b", "spec", "fixed")
		if _, err := shades.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "fixed is fixed") {
			t.Errorf("transition: %v", err)
		}
	})
	t.Run("subresources", func(t *testing.T) {
		made := create(t, "sub", map[string]any{})
		if at(made, "metadata", "generation") != "1" {
			t.Error("the generation does not begin")
		}
		_ = unstructured.SetNestedField(made.Object, int64(7), "status", "replicas")
		_ = unstructured.SetNestedField(made.Object, "a=b", "status", "selector")
		_ = unstructured.SetNestedField(made.Object, "blue", "spec", "color")
		got, err := shades.UpdateStatus(ctx, made, metav1.UpdateOptions{})
		if err != nil || at(got, "status", "replicas") != "7" || at(got, "spec", "color") != `"red"` || at(got, "metadata", "generation") != "1" {
			t.Errorf("status: %v, %v", got, err)
		}
		_ = unstructured.SetNestedField(got.Object, "blue", "spec", "color")
		_ = unstructured.SetNestedField(got.Object, int64(9), "status", "replicas")
		if got, err = shades.Update(ctx, got, metav1.UpdateOptions{}); err != nil || at(got, "status", "replicas") != "7" || at(got, "metadata", "generation") != "2" {
			t.Errorf("update: %v, %v", got, err)
		}
		scale, err := shades.Get(ctx, "sub", metav1.GetOptions{}, "scale")
		if err != nil || at(scale, "spec", "replicas") != "1" || at(scale, "status", "replicas") != "7" || at(scale, "status", "selector") != `"a=b"` {
			t.Errorf("scale: %v, %v", scale, err)
		}
		_ = unstructured.SetNestedField(scale.Object, int64(5), "spec", "replicas")
		if _, err := shades.Update(ctx, scale, metav1.UpdateOptions{}, "scale"); err != nil {
			t.Error(err)
		}
		if got, err = shades.Get(ctx, "sub", metav1.GetOptions{}); err != nil || at(got, "spec", "replicas") != "5" {
			t.Errorf("scaled: %v, %v", got, err)
		}
	})
	t.Run("selectable fields", func(t *testing.T) {
		create(t, "black-one", map[string]any{"color": "black", "replicas": int64(3)})
		list, err := shades.List(ctx, metav1.ListOptions{FieldSelector: "spec.color=black,spec.replicas=3"})
		if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "black-one" {
			t.Errorf("%v, %v", list, err)
		}
		if _, err := shades.List(ctx, metav1.ListOptions{FieldSelector: "spec.low=1"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "field label not supported: spec.low") {
			t.Errorf("a field that is not selectable: %v", err)
		}
		w, err := shades.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.color=black", ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		// Who begins to match is added, and who ends to is deleted.
		got := create(t, "turns", nil)
		for _, color := range []string{"black", "blue"} {
			_ = unstructured.SetNestedField(got.Object, color, "spec", "color")
			if got, err = shades.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
			if e := <-w.ResultChan(); e.Type != want || e.Object.(*unstructured.Unstructured).GetName() != "turns" {
				t.Errorf("%+v, want %s", e, want)
			}
		}
		if err := shades.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.color=black"}); err != nil {
			t.Error(err)
		}
		if _, err := shades.Get(ctx, "black-one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted by its field: %v", err)
		}
	})
	t.Run("documents", func(t *testing.T) {
		_, body := ask("GET", path, "", "Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		var table metav1.Table
		if err := json.Unmarshal(body, &table); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, column := range table.ColumnDefinitions {
			columns = append(columns, fmt.Sprint(column.Name, column.Priority))
		}
		if want := []string{"Name0", "Color0", "Many1"}; !slices.Equal(columns, want) {
			t.Errorf("columns %v, want %v", columns, want)
		}
		lists, err := discovery.NewDiscoveryClientForConfigOrDie(must(kubeconfig(s))).ServerResourcesForGroupVersion("features.example.com/v1")
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]metav1.APIResource{}
		for _, r := range lists.APIResources {
			names[r.Name] = r
		}
		if r := names["shades"]; !slices.Equal(r.ShortNames, []string{"sh"}) || !slices.Equal(r.Categories, []string{"all", "paints"}) || r.SingularName != "shade" || r.StorageVersionHash == "" {
			t.Errorf("%+v", r)
		}
		if names["shades/status"].Name == "" || names["shades/scale"].Kind != "Scale" {
			t.Errorf("%+v", names)
		}
		for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/features.example.com/v1"} {
			waitFor(t, func() bool {
				_, body := ask("GET", path, "")
				return strings.Contains(string(body), "A shade of something.") && strings.Contains(string(body), "x-kubernetes-selectable-fields")
			})
		}
	})
	t.Run("ratcheting", func(t *testing.T) {
		made := create(t, "old", map[string]any{"color": "blue"})
		now, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spec := now.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		color := spec.Properties["color"]
		color.Enum = slices.DeleteFunc(slices.Clone(color.Enum), func(j apiextensionsv1.JSON) bool { return string(j.Raw) == `"blue"` })
		spec.Properties["color"] = color
		if _, err := definitions.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			_, err := shades.Create(ctx, custom(crd, "v1", "new", map[string]any{"color": "blue"}), metav1.CreateOptions{DryRun: []string{"All"}})
			return apierrors.IsInvalid(err)
		})
		// What was valid once may stay, and other fields may change.
		_ = unstructured.SetNestedField(made.Object, int64(4), "spec", "replicas")
		if made, err = shades.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Errorf("an object that was valid: %v", err)
		}
		_ = unstructured.SetNestedField(made.Object, "pink", "spec", "color")
		if _, err := shades.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("another value that is not valid: %v", err)
		}
	})
	t.Run("versions that are stored", func(t *testing.T) {
		now, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		two := *now.Spec.Versions[0].DeepCopy()
		two.Name = "v2"
		now.Spec.Versions[0].Storage = false
		now.Spec.Versions = append(now.Spec.Versions, two)
		if now, err = definitions.Update(ctx, now, metav1.UpdateOptions{}); err != nil || !slices.Equal(now.Status.StoredVersions, []string{"v1", "v2"}) {
			t.Fatalf("%v, %v", now.Status.StoredVersions, err)
		}
		less := now.DeepCopy()
		less.Spec.Versions = less.Spec.Versions[1:]
		if _, err := definitions.Update(ctx, less, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions") {
			t.Errorf("a version that is stored goes: %v", err)
		}
		// Who has written all objects anew says so.
		second := c.at(crd, "v2")
		waitFor(t, func() bool { _, err := second.List(ctx, metav1.ListOptions{}); return err == nil })
		list, err := second.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			t.Fatal(len(list.Items), err)
		}
		for i := range list.Items {
			if _, err := second.Update(ctx, &list.Items[i], metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		if now, err = definitions.Get(ctx, crd.Name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		now.Status.StoredVersions = []string{"v2"}
		if now, err = definitions.UpdateStatus(ctx, now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		now.Spec.Versions = now.Spec.Versions[1:]
		if _, err := definitions.Update(ctx, now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			_, err := shades.List(ctx, metav1.ListOptions{})
			after, other := second.List(ctx, metav1.ListOptions{})
			return apierrors.IsNotFound(err) && other == nil && len(after.Items) == len(list.Items)
		})
	})
	t.Run("names that are taken", func(t *testing.T) {
		thief := definitionOf(t, "thieves", ", shortNames: [sh]", "Cluster", everything)
		thief.Spec.Names.Kind, thief.Spec.Names.Singular = "Shade", "thief"
		if _, err := definitions.Create(ctx, thief, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			now, err := definitions.Get(ctx, thief.Name, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(now.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.NamesAccepted && c.Status == apiextensionsv1.ConditionFalse && c.Reason != ""
			})
		})
		if _, err := c.at(thief, "v1").List(ctx, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a definition without names is served: %v", err)
		}
	})
	t.Run("the end", func(t *testing.T) {
		second := c.at(crd, "v2")
		held := custom(crd, "v2", "held", nil)
		held.SetFinalizers([]string{"example.com/hold"})
		if _, err := second.Create(ctx, held, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := definitions.Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		// Its objects go first, and nothing new comes.
		waitFor(t, func() bool {
			list, err := second.List(ctx, metav1.ListOptions{})
			return err == nil && len(list.Items) == 1
		})
		if _, err := second.Create(ctx, custom(crd, "v2", "late", nil), metav1.CreateOptions{}); !apierrors.IsMethodNotSupported(err) && !apierrors.IsForbidden(err) {
			t.Errorf("create while the definition goes: %v", err)
		}
		if _, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("the definition goes before its objects: %v", err)
		}
		if _, err := second.Patch(ctx, "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		waitFor(t, func() bool {
			_, err := definitions.Get(ctx, crd.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	})
}

// TestAbsurdDefinitions: a definition that nobody can mean is refused at once, or does no harm.
func TestAbsurdDefinitions(t *testing.T) {
	s := start(t, t.TempDir())
	c := customsOf(t, s)
	definitions := c.crds.ApiextensionsV1().CustomResourceDefinitions()
	schema := func(inner string) string {
		return "\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: " + inner + "}}"
	}
	deep := func(n int, leaf string) string {
		return strings.Repeat("{type: object, properties: {a: ", n) + leaf + strings.Repeat("}}", n)
	}
	var wide, enum, versions strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&wide, "p%d: {type: string}, ", i)
		fmt.Fprintf(&enum, "v%d, ", i)
	}
	for i := range 200 {
		fmt.Fprintf(&versions, "\n  - {name: v%d, served: true, storage: %t, schema: {openAPIV3Schema: {type: object}}}", i+1, i == 0)
	}
	rule := func(text string) string {
		return "{type: object, properties: {spec: {type: object, properties: {a: {type: array, items: {type: array, items: {type: string}}}}, x-kubernetes-validations: [{rule: \"" + text + "\"}]}}}"
	}
	for _, tt := range []struct{ name, plural, versions, want string }{
		{name: "depth", plural: "deeps", versions: schema(deep(60, "{type: string}"))},
		{name: "width", plural: "wides", versions: schema("{type: object, properties: {spec: {type: object, properties: {" + wide.String() + "}}}}")},
		{name: "a large enum", plural: "enums", versions: schema("{type: object, properties: {spec: {type: object, properties: {color: {type: string, enum: [" + enum.String() + "]}}}}}")},
		{name: "many versions", plural: "versions", versions: versions.String()},
		{name: "a pattern that explodes elsewhere", plural: "patterns", versions: schema(`{type: object, properties: {spec: {type: object, properties: {color: {type: string, pattern: "^(a+)+$"}}}}}`)},
		{name: "a pattern that is none", plural: "nopatterns", versions: schema(`{type: object, properties: {spec: {type: object, properties: {color: {type: string, pattern: "a("}}}}}`), want: "must be a valid regular expression"},
		{name: "a pattern that repeats without end", plural: "repeats", versions: schema(`{type: object, properties: {spec: {type: object, properties: {color: {type: string, pattern: "((a{1000}){1000}){1000}"}}}}}`), want: "must be a valid regular expression"},
		{name: "a reference", plural: "refs", versions: schema(`{type: object, properties: {spec: {$ref: "#"}}}`), want: "$ref is not supported"},
		{name: "no structure", plural: "loose", versions: schema(`{properties: {spec: {type: object}}}`), want: "must not be empty at the root"},
		{name: "no schema", plural: "bare", versions: "\n  - {name: v1, served: true, storage: true}", want: "schema.openAPIV3Schema: Required value"},
		{name: "two that store", plural: "twos", versions: "\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}\n  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}", want: "must have exactly one version marked as storage version"},
		{name: "a rule that costs too much", plural: "costs", versions: schema(rule("self.a.all(x, self.a.all(y, self.a.all(z, x == y && y == z)))")), want: "estimated rule cost exceeds budget"},
		{name: "a rule that is none", plural: "norules", versions: schema(rule("self.b == 1")), want: "undefined field 'b'"},
		{name: "a rule without a truth", plural: "truths", versions: schema(rule("1 + 1")), want: "must evaluate to a bool"},
		{name: "a default that is not valid", plural: "defaults", versions: schema(`{type: object, properties: {spec: {type: object, properties: {n: {type: integer, default: x}}}}}`), want: "must be of type integer"},
		{name: "a selectable field that is not there", plural: "selects", versions: "\n  - {name: v1, served: true, storage: true, selectableFields: [{jsonPath: .spec.b}], schema: {openAPIV3Schema: {type: object}}}", want: "does not refer to a valid field"},
		{name: "nine selectable fields", plural: "nines", versions: "\n  - {name: v1, served: true, storage: true, selectableFields: [{jsonPath: .a},{jsonPath: .b},{jsonPath: .c},{jsonPath: .d},{jsonPath: .e},{jsonPath: .f},{jsonPath: .g},{jsonPath: .h},{jsonPath: .i}], schema: {openAPIV3Schema: {type: object, properties: {a: {type: string},b: {type: string},c: {type: string},d: {type: string},e: {type: string},f: {type: string},g: {type: string},h: {type: string},i: {type: string}}}}}", want: "must have at most 8 items"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crd := definitionOf(t, tt.plural, "", "Namespaced", tt.versions)
			if tt.want == "" {
				c.define(t, crd)
				if _, err := c.at(crd, "v1").Create(t.Context(), custom(crd, "v1", "a", map[string]any{"color": strings.Repeat("a", 50_000) + "!"}), metav1.CreateOptions{}); err != nil && !apierrors.IsInvalid(err) {
					t.Error(err)
				}
				if err := definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				return
			}
			if _, err := definitions.Create(t.Context(), crd, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	core := definitionOf(t, "pods", "", "Namespaced", schema("{type: object}"))
	core.Name, core.Spec.Group = "deployments.apps", "apps"
	core.Spec.Names.Plural = "deployments"
	if _, err := definitions.Create(t.Context(), core, metav1.CreateOptions{}); err != nil && !apierrors.IsInvalid(err) {
		t.Error(err)
	}
	if _, err := overTLS(t, s).AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a definition under a built-in name: %v", err)
	}
	protected := definitionOf(t, "mines", "", "Namespaced", schema("{type: object}"))
	protected.Name, protected.Spec.Group = "mines.things.k8s.io", "things.k8s.io"
	if _, err := definitions.Create(t.Context(), protected, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "protected groups must have approval annotation") {
		t.Errorf("a group of Kubernetes: %v", err)
	}
}
