package demand

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

var (
	doors = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"}
	gates = schema.GroupVersionResource{Group: "later.example.com", Version: "v1", Resource: "gates"}
)

func object(kind schema.GroupVersionResource, name, class string, annotations map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	o.SetAPIVersion(kind.GroupVersion().String())
	o.SetKind(map[string]string{"doors": "Door", "gates": "Gate"}[kind.Resource])
	o.SetName(name)
	o.SetNamespace("work")
	o.SetAnnotations(annotations)
	if class != "" {
		o.Object["spec"] = map[string]any{"class": class}
	}
	return o
}

func TestRuleMeets(t *testing.T) {
	own := Rule{Fields: []Field{{Member: []string{"spec", "class"}, Values: []string{"own"}}}}
	none := Rule{Fields: []Field{
		{Member: []string{"spec", "class"}, Values: []string{""}},
		{Member: []string{"metadata", "annotations", "example.com/class.name"}, Values: []string{"", "own"}},
	}}
	said := func(class string) map[string]string { return map[string]string{"example.com/class.name": class} }
	for _, tt := range []struct {
		name      string
		class     string
		annotated map[string]string
		own, none bool
	}{
		{"the class", "own", nil, true, false},
		{"another class", "other", nil, false, false},
		{"a class that only begins so", "own2", nil, false, false},
		{"no class", "", nil, false, true},
		{"the annotation", "", said("own"), false, true},
		{"the annotation of another", "", said("other"), false, false},
		{"both", "other", said("own"), false, false},
	} {
		o := object(doors, "a", tt.class, tt.annotated).Object
		if own.meets(o) != tt.own || none.meets(o) != tt.none {
			t.Errorf("%s: %t and %t, want %t and %t", tt.name, own.meets(o), none.meets(o), tt.own, tt.none)
		}
	}
	// What clients write need not have the form that was thought of.
	for _, odd := range []map[string]any{
		nil, {"spec": nil}, {"spec": "own"}, {"spec": []any{"own"}}, {"spec": map[string]any{"class": map[string]any{"own": "own"}}}, {"spec": map[string]any{"class": []any{"own"}}},
	} {
		if own.meets(odd) {
			t.Errorf("%v meets the rule", odd)
		}
	}
	for value, want := range map[any]string{true: "true", int64(7): "7", "x": "x"} {
		if got := valueOf(map[string]any{"a": value}, []string{"a"}); got != want {
			t.Errorf("value of %v is %q", value, got)
		}
	}
}

// follower runs a Follower over a fake API within a bubble of synctest.
type follower struct {
	*Follower
	client *fake.FakeDynamicClient
	served atomic.Bool  // gates
	looked atomic.Int32 // while they were not served
	mu     sync.Mutex
	starts []string
	refuse error
}

func run(t *testing.T, wants []Want, objects ...runtime.Object) *follower {
	t.Helper()
	f := &follower{Follower: &Follower{}}
	f.client = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{doors: "DoorList", gates: "GateList"}, objects...)
	f.client.PrependReactor("list", "gates", func(clienttesting.Action) (bool, runtime.Object, error) {
		if f.served.Load() {
			return false, nil, nil
		}
		f.looked.Add(1)
		return true, nil, apierrors.NewNotFound(gates.GroupResource(), "")
	})
	f.Use(wants)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := f.Run(ctx, Config{
			Client: f.client, Log: slog.New(slog.DiscardHandler),
			Start: func(plugin, object string) error {
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.refuse == nil {
					f.starts = append(f.starts, plugin+" for "+object)
				}
				return f.refuse
			},
		}); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return f
}

func (f *follower) started(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.starts, want) {
		t.Errorf("started are %q, want %q", f.starts, want)
	}
}

func (f *follower) create(t *testing.T, kind schema.GroupVersionResource, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := f.client.Resource(kind).Namespace("work").Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func ofClass(resource schema.GroupVersionResource, class string) Rule {
	return Rule{Resource: resource, Fields: []Field{{Member: []string{"spec", "class"}, Values: []string{class}}}}
}

var both = []Want{
	{Plugin: "in", Rules: []Rule{ofClass(doors, "own"), ofClass(gates, "own")}},
	{Plugin: "gate", Rules: []Rule{ofClass(gates, "own")}},
}

// TestFirstObjectStarts: an object of another class starts nothing, the first of the own class
// does, once, and what comes later or goes changes nothing.
func TestFirstObjectStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, both, object(doors, "before", "other", nil))
		f.create(t, doors, object(doors, "a", "other", nil))
		f.started(t)
		if f.Met("in") {
			t.Error("it is asked for by another class")
		}
		f.create(t, doors, object(doors, "b", "own", nil))
		f.started(t, "in for doors.example.com work/b")
		f.create(t, doors, object(doors, "c", "own", nil))
		if err := f.client.Resource(doors).Namespace("work").Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.started(t, "in for doors.example.com work/b")
		if !f.Met("in") || f.Met("gate") {
			t.Errorf("in %t, gate %t", f.Met("in"), f.Met("gate"))
		}
	})
}

// TestObjectsThatAreThere: after a restart the objects of before ask, one that is being deleted
// does not, and a change of an object does.
func TestObjectsThatAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := object(doors, "gone", "own", nil)
		gone.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
		gone.SetFinalizers([]string{"example.com/x"})
		f := run(t, both, gone, object(doors, "there", "other", nil))
		f.started(t)
		if _, err := f.client.Resource(doors).Namespace("work").Update(t.Context(), object(doors, "there", "own", nil), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.started(t, "in for doors.example.com work/there")
	})
	synctest.Test(t, func(t *testing.T) {
		run(t, both, object(doors, "there", "own", nil)).started(t, "in for doors.example.com work/there")
	})
}

// TestKindThatComesLater: a resource that is not served is not asked for, and found when it is.
// One object starts all that want it.
func TestKindThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, both, object(gates, "g", "own", nil))
		time.Sleep(looks - time.Second)
		f.started(t)
		if n := f.looked.Load(); n != 1 {
			t.Errorf("asked for %d times while nothing defines it", n)
		}
		for _, name := range []string{"others.later.example.com", "gates.later.example.com"} {
			o := object(definitions, name, "", nil)
			o.SetKind("CustomResourceDefinition")
			o.SetNamespace("")
			if _, err := f.client.Resource(definitions).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second) // it is served a while after it is defined
		f.started(t)
		f.served.Store(true)
		time.Sleep(longestRetry)
		synctest.Wait()
		f.mu.Lock()
		slices.Sort(f.starts)
		f.mu.Unlock()
		f.started(t, "gate for gates.later.example.com work/g", "in for gates.later.example.com work/g")
	})
}

// TestStartThatFails: it is tried again, ever more seldom, and not when the configuration
// wants it no more.
func TestStartThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, both)
		f.refuse = errors.New("no room")
		f.create(t, doors, object(doors, "a", "own", nil))
		time.Sleep(10 * time.Second)
		if f.Met("in") {
			t.Error("it counts as started")
		}
		f.mu.Lock()
		f.refuse = nil
		f.mu.Unlock()
		time.Sleep(longestRetry)
		f.started(t, "in for doors.example.com work/a")
	})
	synctest.Test(t, func(t *testing.T) {
		f := run(t, both)
		f.refuse = errors.New("no room")
		f.create(t, doors, object(doors, "a", "own", nil))
		f.Use(nil)
		time.Sleep(longestRetry)
		f.mu.Lock()
		f.refuse = nil
		f.mu.Unlock()
		time.Sleep(time.Hour)
		f.started(t)
	})
}

// TestChangedRules: rules of a changed configuration are looked at from then on, also at
// objects that are there.
func TestChangedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := run(t, nil, object(doors, "a", "new", nil))
		f.started(t)
		f.Use([]Want{{Plugin: "in", Rules: []Rule{ofClass(doors, "new")}}})
		f.started(t, "in for doors.example.com work/a")
	})
}
