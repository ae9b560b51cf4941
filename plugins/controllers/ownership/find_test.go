package ownership

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func TestFind(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	set := func(namespace, name string, selector *metav1.LabelSelector) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}, Spec: appsv1.ReplicaSetSpec{Selector: selector},
		}
	}
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for _, rs := range []*appsv1.ReplicaSet{
		set("a", "web", web), set("a", "all", &metav1.LabelSelector{}), set("a", "none", nil), set("b", "web", web),
		set("a", "bad", &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}),
	} {
		if err := indexer.Add(rs); err != nil {
			t.Fatal(err)
		}
	}
	if rs := Cached[*appsv1.ReplicaSet](indexer, "b/web"); rs == nil || rs.Namespace != "b" {
		t.Errorf("cached: %v", rs)
	}
	if d := Cached[*appsv1.Deployment](indexer, "a/web"); d != nil {
		t.Errorf("one of another type: %v", d)
	}
	reference := func(kind, name string, uid types.UID) *metav1.OwnerReference {
		return &metav1.OwnerReference{Kind: kind, Name: name, UID: uid}
	}
	for name, tc := range map[string]struct {
		ref   *metav1.OwnerReference
		found bool
	}{
		"no reference":        {nil, false},
		"it":                  {reference("ReplicaSet", "web", "uid-web"), true},
		"another kind":        {reference("Deployment", "web", "uid-web"), false},
		"another of the name": {reference("ReplicaSet", "web", "uid-old"), false},
		"one that is gone":    {reference("ReplicaSet", "gone", "uid-gone"), false},
	} {
		if got := Owner[*appsv1.ReplicaSet](indexer, "ReplicaSet", "a", tc.ref); (got != nil) != tc.found {
			t.Errorf("%s: %v", name, got)
		}
	}
	selector := func(rs *appsv1.ReplicaSet) *metav1.LabelSelector { return rs.Spec.Selector }
	adopters := func(labels map[string]string) (names []string) {
		for _, rs := range Adopters(indexer, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Labels: labels}}, selector) {
			names = append(names, rs.Name)
		}
		return names
	}
	if got := adopters(map[string]string{"app": "web", "x": "y"}); !slices.Equal(got, []string{"web"}) {
		t.Errorf("adopters %v", got)
	}
	if got := adopters(nil); got != nil {
		t.Errorf("adopters of what has no labels: %v", got)
	}
}
