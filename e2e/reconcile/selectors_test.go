package reconcile

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// selectors is what kernel/api compares its lists with.
const (
	selectors = "../../kernel/api/testdata/upstream/selectors-1.36.txt"
	header    = "# What lists of kube-apiserver 1.36 take: the resource, its short names, and the fields by which it can be selected.\n" +
		"# Tried were all fields of all kinds down to the fourth level, and those of the record before.\n"
)

// TestUpstreamSelectors asks kube-apiserver for the short names and field selectors of each
// kind, with -upstream: it writes them down, or compares them with what was written.
func TestUpstreamSelectors(t *testing.T) {
	if *upstreamMode == "" {
		t.Skip("kube-apiserver is asked with -upstream alone; make controller-goldens builds it")
	}
	before, err := os.ReadFile(selectors)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	for line := range strings.Lines(string(before)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" && f[2] != "-" {
			for field := range strings.SplitSeq(f[2], ",") {
				fields[field] = true
			}
		}
	}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if _, listed := scheme.Scheme.AllKnownTypes()[gvk.GroupVersion().WithKind(gvk.Kind+"List")]; listed {
			addFields(fields, typ, "", 4)
		}
	}
	host, _ := newAPIServer(t, t.TempDir())
	cfg := upstreamConfig(host)
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	d := discovery.NewDiscoveryClientForConfigOrDie(cfg)
	_, lists, err := d.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(cfg)
	every := slices.Sorted(maps.Keys(fields))
	var lines []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue
			}
			var taken []string
			if slices.Contains(r.Verbs, "list") {
				for _, field := range every {
					_, err := client.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{FieldSelector: field + "=x", Limit: 1})
					switch {
					case err == nil:
						taken = append(taken, field)
					case !apierrors.IsBadRequest(err):
						t.Fatalf("%s by %s: %v", r.Name, field, err)
					}
				}
			}
			lines = append(lines, fmt.Sprintln(list.GroupVersion+"/"+r.Name, orNone(r.ShortNames), orNone(taken)))
		}
	}
	slices.Sort(lines) // upstream's order changes from start to start
	now := header + strings.Join(lines, "")
	if *upstreamMode == "write" {
		write(t, selectors, now)
	} else if now != string(before) {
		t.Errorf("%s is not what kube-apiserver says; run make controller-goldens. It says:\n%s", selectors, now)
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}

// addFields adds the paths of a type's fields, as JSON names them, down to a level.
func addFields(fields map[string]bool, typ reflect.Type, prefix string, levels int) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || levels == 0 {
		return
	}
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // inlined
			addFields(fields, field.Type, prefix, levels)
			continue
		}
		fields[prefix+name] = true
		addFields(fields, field.Type, prefix+name+".", levels-1)
	}
}
