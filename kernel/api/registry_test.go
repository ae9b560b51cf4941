package api

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/api/admission"
	"pintle.dev/pintle/kernel/api/auth/rbac"
	"pintle.dev/pintle/kernel/api/flowcontrol"
	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/resources/resource"
)

// indexes records the index that a store asks its storage for.
type indexes struct{ got storage.IndexerFuncs }

func (i *indexes) GetRESTOptions(gr schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{GroupResource: gr}, ResourcePrefix: gr.Resource,
		Decorator: func(_ *storagebackend.ConfigForResource, _ string, _ func(runtime.Object) (string, error), _, _ func() runtime.Object,
			_ storage.AttrFunc, trigger storage.IndexerFuncs, _ *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			i.got = trigger
			return nil, func() {}, nil
		},
	}, nil
}

// TestWatchesOfANodeAreIndexed: an event of a pod is offered to the watch of
// its node, not to that of every node.
func TestWatchesOfANodeAreIndexed(t *testing.T) {
	kinds, err := resources.All(resources.Options{ServiceCIDR: "10.0.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if k.GVK != corev1.SchemeGroupVersion.WithKind("Pod") {
			continue
		}
		var got indexes
		store, err := newStore(k, &got)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := got.got["spec.nodeName"]
		if !ok {
			t.Fatalf("the storage of pods is told of the indexes %v, without spec.nodeName", got.got)
		}
		if v := value(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1"}}); v != "n1" {
			t.Errorf("a pod of node n1 is found under %q", v)
		}
		predicate := store.PredicateFunc(labels.Everything(), fields.OneTermEqualSelector("spec.nodeName", "n1"))
		if values := predicate.MatcherIndex(t.Context()); len(values) != 1 || values[0].Value != "n1" {
			t.Errorf("a selector of node n1 is looked up under %v", values)
		}
		return
	}
	t.Fatal("there is no kind Pod")
}

// TestOnlyWhatIsAskedForIsInformed: an informer holds all objects of its kind
// in memory, so there is one for what authorization and admission look up, and
// for nothing else.
func TestOnlyWhatIsAskedForIsInformed(t *testing.T) {
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := rbac.NewIndex().Follow(factory); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	flowcontrol.New(factory, client, 1)
	if _, err := admission.NewChain(admission.Deps{Client: client, Informers: factory, Stop: stop}); err != nil {
		t.Fatal(err)
	}
	factory.Start(stop)
	want := map[reflect.Type]bool{}
	for kind := range factory.WaitForCacheSync(stop) {
		want[kind] = true
	}
	close(stop)
	factory.Shutdown()

	kinds, err := servedKinds(resources.Options{ServiceCIDR: "10.0.0.0/16"}, nil, resource.Access{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[reflect.Type]bool{}
	for _, k := range kinds {
		if slices.Contains(informed, groupResource(k)) {
			got[reflect.TypeOf(k.New())] = true
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("informed are %v, used are %v", slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(want)))
	}
}
