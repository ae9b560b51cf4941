package api_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// TestSelectorsAndShortNames: each kind has the short names of kube-apiserver, and takes
// the same field selectors. Each list is asked for the fields of all kinds.
func TestSelectorsAndShortNames(t *testing.T) {
	data, err := os.ReadFile("testdata/upstream/selectors-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	split := func(s string) []string {
		return slices.DeleteFunc(strings.Split(s, ","), func(s string) bool { return s == "-" })
	}
	type kind struct{ names, fields []string }
	want := map[string]kind{}
	every := []string{"spec", "spec.nothing", "metadata.uid", "status.replicas"}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			want[f[0]] = kind{split(f[1]), split(f[2])}
			every = append(every, want[f[0]].fields...)
		}
	}
	slices.Sort(every)
	every = slices.Compact(every)
	if len(want) < 60 || len(every) < 30 {
		t.Fatalf("%d kinds and %d fields were recorded", len(want), len(every))
	}
	s := start(t, t.TempDir())
	cfg := rest.CopyConfig(must(kubeconfig(s)))
	cfg.QPS = -1
	client := dynamic.NewForConfigOrDie(cfg)
	_, lists, err := overTLS(t, s).Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	// Kinds that are not compared are served no more; ComponentStatus is not there on purpose.
	missing := maps.Clone(want)
	delete(missing, "v1/componentstatuses")
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			name := list.GroupVersion + "/" + r.Name
			of, ok := want[name]
			if !ok {
				continue // a subresource, or the kernel's own
			}
			delete(missing, name)
			if !slices.Equal(r.ShortNames, of.names) {
				t.Errorf("%s has the short names %q, upstream's %q", name, r.ShortNames, of.names)
			}
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			for _, field := range every {
				_, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{FieldSelector: field + "=x", Limit: 1})
				if takes := slices.Contains(of.fields, field); takes && err != nil || !takes && !apierrors.IsBadRequest(err) {
					t.Errorf("%s by %s=x: %v; upstream takes it: %t", name, field, err, takes)
				}
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("not served: %q", slices.Sorted(maps.Keys(missing)))
	}
}
