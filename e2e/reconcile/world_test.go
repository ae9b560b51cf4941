package reconcile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

// followed are the kinds that controllers write, and what they go by.
var followed = []string{
	"v1/pods", "v1/replicationcontrollers", "v1/services", "v1/endpoints", "v1/events", "v1/serviceaccounts", "v1/configmaps",
	"v1/resourcequotas", "v1/persistentvolumeclaims", "v1/persistentvolumes", "v1/namespaces", "v1/nodes",
	"apps/v1/deployments", "apps/v1/replicasets", "apps/v1/statefulsets", "apps/v1/daemonsets", "apps/v1/controllerrevisions",
	"batch/v1/jobs", "batch/v1/cronjobs", "autoscaling/v2/horizontalpodautoscalers", "policy/v1/poddisruptionbudgets", "discovery.k8s.io/v1/endpointslices",
}

// world is a control plane: clients of it, and all its objects.
type world struct {
	client  kubernetes.Interface
	dynamic dynamic.Interface

	mapping sync.Mutex // of mapper
	mapper  meta.ResettableRESTMapper

	mu     sync.Mutex
	scenes map[string]*scene // by the names of scripts
	silent map[string]bool   // nodes without heartbeats

	ended func() // waits for what was started
}

// newWorld follows a control plane until the context ends. The caller then waits by
// ended.
func newWorld(ctx context.Context, cfg *rest.Config) (*world, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	w := &world{
		client: client, dynamic: dyn, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		scenes: map[string]*scene{}, silent: map[string]bool{},
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(dyn, 0)
	for _, path := range followed {
		gv, resource := path[:strings.LastIndexByte(path, '/')], path[strings.LastIndexByte(path, '/')+1:]
		parsed, err := schema.ParseGroupVersion(gv)
		if err != nil {
			return nil, err
		}
		informer := factory.ForResource(parsed.WithResource(resource)).Informer()
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { w.take(o, false) },
			UpdateFunc: func(_, o any) { w.take(o, false) },
			DeleteFunc: func(o any) { w.take(o, true) },
		}); err != nil {
			return nil, err
		}
	}
	factory.Start(ctx.Done())
	for resource, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return nil, fmt.Errorf("follow %s: %w", resource.Resource, context.Cause(ctx))
		}
	}
	var beats sync.WaitGroup
	beats.Go(func() { w.beat(ctx) })
	w.ended = func() {
		factory.Shutdown()
		beats.Wait()
	}
	return w, nil
}

// take hands an object to the script that it belongs to.
func (w *world) take(o any, gone bool) {
	if late, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = late.Obj
	}
	object := o.(*unstructured.Unstructured)
	place := object.GetNamespace()
	switch {
	case place == "":
		place = object.GetName()
	case place == metav1.NamespaceDefault && object.GetKind() == "Event":
		place, _, _ = unstructured.NestedString(object.Object, "involvedObject", "name")
		if kind, _, _ := unstructured.NestedString(object.Object, "involvedObject", "kind"); kind == "Plugin" {
			return // Kubernetes has none, and one has the name of a script
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, s := range w.scenes {
		if place == name || strings.HasPrefix(place, name+"-") {
			s.take(object, gone)
		}
	}
}

// scene begins to collect what belongs to a script.
func (w *world) scene(name string) *scene {
	s := &scene{world: w, name: name, names: newNames(), objects: map[string]*unstructured.Unstructured{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scenes[name] = s
	return s
}

// resource is how objects of a kind are asked for, and whether they are in a namespace.
// A kind may be served a moment after its definition was made.
func (w *world) resource(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	for {
		w.mapping.Lock()
		m, err := w.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			w.mapper.Reset()
		}
		w.mapping.Unlock()
		if err == nil || !meta.IsNoMatchError(err) {
			return m, err
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("kind %s: %w", kind, err)
		}
	}
}

// pause waits before something is asked again.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// addNode makes a node of a script that is ready, with a heartbeat.
func (w *world) addNode(ctx context.Context, script, name string) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: script, "script": script,
		}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			Capacity:   roomy, Allocatable: roomy,
		},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(name), new(int32(40))
	now := metav1.NowMicro()
	lease.Spec.RenewTime = &now
	if _, err := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("lease of node %s: %w", name, err)
	}
	if _, err := w.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent[name] = false
	return nil
}

// silence ends the heartbeats of a node.
func (w *world) silence(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent[name] = true
}

// beat renews the leases of all nodes, as their agents do.
func (w *world) beat(ctx context.Context) {
	for pause(ctx, 5*time.Second) == nil {
		w.mu.Lock()
		var alive []string
		for name, silent := range w.silent {
			if !silent {
				alive = append(alive, name)
			}
		}
		w.mu.Unlock()
		for _, name := range alive {
			leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
			lease, err := leases.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				now := metav1.NowMicro()
				lease.Spec.RenewTime = &now
				_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
			}
			if apierrors.IsNotFound(err) { // its node was deleted
				w.silence(name)
			}
		}
	}
}

// scene is what of a world belongs to one script.
type scene struct {
	world *world
	name  string

	mu      sync.Mutex
	names   *names
	objects map[string]*unstructured.Unstructured // by kind, namespace and name
	changes int                                   // of objects, so far
}

func (s *scene) take(o *unstructured.Unstructured, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
	if _, had := s.objects[key]; !had && !gone && o.GetKind() != "Event" {
		s.names.appear(o)
	}
	if gone {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
	s.changes++
}

// of is the name of the object that a script names.
func (s *scene) of(shown string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names.of(shown)
}

// changed is how often an object changed so far.
func (s *scene) changed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changes
}
