package namespace

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

var (
	verbs  = metav1.Verbs{"create", "delete", "deletecollection", "get", "list"}
	served = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Namespaced: true, Kind: "Pod", Verbs: verbs},
			{Name: "configmaps", Namespaced: true, Kind: "ConfigMap", Verbs: verbs},
			{Name: "bindings", Namespaced: true, Kind: "Binding", Verbs: metav1.Verbs{"create"}},
		}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
			{Name: "lamps", Namespaced: true, Kind: "Lamp", Verbs: metav1.Verbs{"create", "delete", "get", "list"}},
		}},
	}
)

func object(apiVersion, kind, name string, finalizers ...string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: finalizers},
	}
}

// setup returns the controller over fakes; a collection is deleted object by
// object, but for those with finalizers.
func setup(t *testing.T, ns *corev1.Namespace, objects ...runtime.Object) (*namespaces, *fake.Clientset, *metadatafake.FakeMetadataClient, informers.SharedInformerFactory) {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	meta := metadatafake.NewSimpleMetadataClient(scheme, objects...)
	meta.PrependReactor("delete-collection", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		// The fake is locked here, so its store is asked and not the client.
		list, err := meta.Tracker().List(a.GetResource(), metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), a.GetNamespace())
		if err != nil {
			return true, nil, err
		}
		objects, err := apimeta.ExtractList(list)
		if err != nil {
			return true, nil, err
		}
		for _, o := range objects {
			m, err := apimeta.Accessor(o)
			if err != nil {
				return true, nil, err
			}
			if len(m.GetFinalizers()) == 0 {
				if err := meta.Tracker().Delete(a.GetResource(), m.GetNamespace(), m.GetName()); err != nil {
					return true, nil, err
				}
			}
		}
		return true, nil, nil
	})
	client := fake.NewClientset(ns)
	client.PrependReactor("create", "namespaces", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "finalize" {
			return false, nil, nil
		}
		o := a.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		if len(o.Spec.Finalizers) == 0 {
			return true, o, client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("namespaces"), "", o.Name)
		}
		return true, o, client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), o, "")
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	n := newController(&controller.Context{Logger: slog.New(slog.DiscardHandler), Client: client, Informers: factory}, meta,
		func() ([]*metav1.APIResourceList, error) { return served, nil })
	return n, client, meta, factory
}

func deleting(ago time.Duration, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	at := metav1.NewTime(time.Now().Add(-ago))
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", DeletionTimestamp: &at, Finalizers: []string{"keeps-the-fake-from-deleting"}},
		Spec:       corev1.NamespaceSpec{Finalizers: append([]corev1.FinalizerName{corev1.FinalizerKubernetes}, finalizers...)},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

// NS: a deleted namespace is emptied, custom resources too, and vanishes.
func TestVanishes(t *testing.T) {
	defer goleak.VerifyNone(t)
	ns := deleting(0)
	n, client, meta, factory := setup(t, ns, object("v1", "ConfigMap", "c"), object("v1", "Pod", "p"), object("example.com/v1", "Lamp", "l"))
	ctx, cancel := context.WithCancel(t.Context())
	stop := make(chan struct{})
	factory.Start(stop)
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, "ns", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, r := range []schema.GroupVersionResource{podResource, corev1.SchemeGroupVersion.WithResource("configmaps"), {Group: "example.com", Version: "v1", Resource: "lamps"}} {
		list, err := meta.Resource(r).Namespace("ns").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("%v: %d left, %v", r, len(list.Items), err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(stop)
	factory.Shutdown()
}

// going is a pod that was told to end and waits for its agent.
func going(name string) *metav1.PartialObjectMetadata {
	p := object("v1", "Pod", name, "agent")
	p.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	return p
}

// A namespace is looked at when its last pod went, and not for each.
func TestLastPod(t *testing.T) {
	n, _, _, _ := setup(t, deleting(0))
	defer n.loop.Close()
	pod := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for i, step := range []struct {
		old, current *corev1.Pod
		last         bool
	}{
		{nil, pod("ns", "a"), false},
		{nil, pod("ns", "b"), false},
		{nil, pod("other", "a"), false},
		{pod("ns", "a"), pod("ns", "a"), false},
		{pod("ns", "a"), nil, false},
		{pod("ns", "b"), nil, true},
		{nil, pod("ns", "c"), false},
		{pod("ns", "c"), nil, true},
	} {
		if got := n.lastGone(step.old, step.current); got != step.last {
			t.Errorf("step %d: %v", i, got)
		}
	}
	if len(n.count) != 1 {
		t.Errorf("counted %v", n.count)
	}
}

// One pass: what it waits for, and what it says about it.
func TestSync(t *testing.T) {
	condition := func(ns *corev1.Namespace, kind corev1.NamespaceConditionType) string {
		for _, c := range ns.Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		return ""
	}
	grace := int64(30)
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace}}
	for name, tc := range map[string]struct {
		ns      *corev1.Namespace
		objects []runtime.Object
		pods    []*corev1.Pod
		change  func(*namespaces)
		after   time.Duration
		fails   string
		gone    bool
		spared  bool // the pods are not deleted again
		says    map[corev1.NamespaceConditionType]string
	}{
		"empty": {ns: deleting(0), gone: true},
		"another finalizer stays": {ns: deleting(0, "example.com/hold"), says: map[corev1.NamespaceConditionType]string{
			corev1.NamespaceContentRemaining: "False ContentRemoved: All content successfully removed",
		}},
		"held by a finalizer": {
			ns: deleting(0), objects: []runtime.Object{object("v1", "ConfigMap", "c", "example.com/f"), object("v1", "ConfigMap", "d")}, after: longestWait,
			says: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceContentRemaining:       "True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
				corev1.NamespaceFinalizersRemaining:    "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/f in 1 resource instances",
				corev1.NamespaceDeletionContentFailure: "False ContentDeleted: All content successfully deleted, may be waiting on finalization",
			},
		},
		"pods end first": {
			ns: deleting(0), objects: []runtime.Object{object("v1", "Pod", "p", "agent"), object("v1", "ConfigMap", "c")}, pods: []*corev1.Pod{running}, after: longestWait,
			says: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceContentRemaining: "True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances",
			},
		},
		"pods that go are left alone": {
			ns: deleting(0), objects: []runtime.Object{going("p")}, pods: []*corev1.Pod{running}, after: longestWait, spared: true,
		},
		"but not longer than their time": {
			ns: deleting(time.Minute), objects: []runtime.Object{going("p")}, pods: []*corev1.Pod{running}, after: longestWait,
		},
		"discovery fails": {
			ns: deleting(0), fails: "boom",
			change: func(n *namespaces) {
				n.discover = func() ([]*metav1.APIResourceList, error) {
					return served, &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "g", Version: "v1"}: errors.New("boom")}}
				}
			},
			says: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceDeletionDiscoveryFailure: "True DiscoveryFailed: Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: g/v1: boom",
			},
		},
		"deletion fails": {
			ns: deleting(0), objects: []runtime.Object{object("example.com/v1", "Lamp", "l")}, fails: "no way",
			change: func(n *namespaces) {
				n.objects.(*metadatafake.FakeMetadataClient).PrependReactor("delete", "lamps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("no way")
				})
			},
			says: map[corev1.NamespaceConditionType]string{
				corev1.NamespaceDeletionContentFailure: "True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: no way",
			},
		},
		"not deleted": {ns: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, objects: []runtime.Object{object("v1", "ConfigMap", "c")}},
	} {
		t.Run(name, func(t *testing.T) {
			n, client, meta, _ := setup(t, tc.ns, tc.objects...)
			defer n.loop.Close()
			if err := n.informers.namespaces.GetStore().Add(tc.ns); err != nil {
				t.Fatal(err)
			}
			for _, p := range tc.pods {
				if err := n.informers.pods.GetStore().Add(p); err != nil {
					t.Fatal(err)
				}
			}
			if tc.change != nil {
				tc.change(n)
			}
			err := n.sync(t.Context(), "ns")
			var after *queue.After
			switch {
			case tc.fails != "":
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v", err)
				}
			case errors.As(err, &after) && after.Delay == tc.after && tc.after > 0:
			case err != nil || tc.after > 0:
				t.Errorf("error %v, want to wait %s", err, tc.after)
			}
			ns, err := client.CoreV1().Namespaces().Get(t.Context(), "ns", metav1.GetOptions{})
			if tc.gone != apierrors.IsNotFound(err) {
				t.Fatalf("gone: %v", err)
			}
			for kind, want := range tc.says {
				if got := condition(ns, kind); got != want {
					t.Errorf("%s: %q, want %q", kind, got, want)
				}
			}
			again := slices.ContainsFunc(meta.Actions(), func(a clienttesting.Action) bool { return a.Matches("delete-collection", "pods") })
			if tc.spared == again && len(tc.objects) > 0 && tc.pods != nil {
				t.Errorf("pods deleted: %v", again)
			}
			if tc.pods != nil && len(tc.objects) > 1 || tc.ns.DeletionTimestamp == nil {
				list, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("ns").List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) != 1 {
					t.Errorf("the config map went before its time: %v", err)
				}
			}
		})
	}
}
