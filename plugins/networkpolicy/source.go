package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// source is what the plugin knows of the cluster. Pods and namespaces are watched while
// there is a policy.
type source struct {
	node    string
	ranges  []netip.Prefix
	core    rest.Interface
	changed func() // called after each change that may matter
	limit   int    // bytes that are kept of the policies of a namespace
	apis    rest.Interface
	known   map[string]seenPod // by namespace and name; of cluster alone

	mu         sync.Mutex
	policies   *policies
	next       *policies // takes the place of policies when it has read them
	began      time.Time // the last reading
	pods       *watched
	namespaces *watched
	end        context.CancelFunc // of both; nil: they are not watched
}

// policies are those of the cluster, as far as there is room.
type policies struct {
	*watched
	keeper *keeper
	end    context.CancelFunc
}

// seenPod is a pod with what was made of it.
type seenPod struct {
	object *corev1.Pod
	pod    *program.Pod
}

// readAgain is the least time between two readings of all policies.
const readAgain = time.Minute

// watched is a store with the goroutine that fills it.
type watched struct {
	store  cache.Store
	synced func() bool
	done   chan struct{}
}

// clients returns clients of the core and the networking group over a unix socket. The
// socket is the credential.
func clients(socket string) (core, networking rest.Interface, err error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	if err := networkingv1.AddToScheme(scheme); err != nil {
		return nil, nil, err
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	of := func(path string, version schema.GroupVersion) (rest.Interface, error) {
		return rest.RESTClientFor(&rest.Config{
			Host: "http://pintle.local", APIPath: path, UserAgent: "pintle-plugin/" + Name, QPS: -1, DisableCompression: true,
			ContentConfig: rest.ContentConfig{
				GroupVersion: &version, NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
				ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + ",application/json",
			},
			Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", socket)
			},
		})
	}
	if core, err = of("/api", corev1.SchemeGroupVersion); err != nil {
		return nil, nil, fmt.Errorf("client of the API: %w", err)
	}
	if networking, err = of("/apis", networkingv1.SchemeGroupVersion); err != nil {
		return nil, nil, fmt.Errorf("client of the API: %w", err)
	}
	return core, networking, nil
}

// newSource begins to watch policies until ctx ends; wait waits for the end.
func newSource(ctx context.Context, node string, ranges []netip.Prefix, limit int, core, networking rest.Interface, changed func()) *source {
	s := &source{node: node, ranges: ranges, core: core, apis: networking, limit: limit, changed: changed}
	s.policies = s.read(ctx)
	return s
}

// read begins to watch policies.
func (s *source) read(ctx context.Context) *policies {
	inner, cancel := context.WithCancel(ctx)
	k := newKeeper(s.limit)
	s.began = time.Now()
	return &policies{watch(inner, s.apis, "networkpolicies", &networkingv1.NetworkPolicy{}, k.slim, s.changed, k.gone), k, cancel}
}

// stop ends the watch and waits for it.
func (p *policies) stop() {
	p.end()
	<-p.done
}

// due says that policies are to be read again: some were not kept for which there is room by
// now. What a watch left out it does not bring again.
func (s *source) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next == nil && time.Since(s.began) >= readAgain && s.policies.keeper.room()
}

// renew reads policies again where that is due. Until they are read the ones before count.
func (s *source) renew(ctx context.Context) {
	due := s.due()
	s.mu.Lock()
	defer s.mu.Unlock()
	if due {
		s.next = s.read(ctx)
	}
	if s.next != nil && s.next.synced() {
		s.policies.stop()
		s.policies, s.next = s.next, nil
	}
}

// watch keeps what a resource holds, of which slim leaves what policies have to do with.
func watch(ctx context.Context, client rest.Interface, resource string, object runtime.Object, slim cache.TransformFunc, changed func(), gone ...func(any)) *watched {
	informer := cache.NewSharedIndexInformerWithOptions(cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything()), object, cache.SharedIndexInformerOptions{})
	_, added := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		DeleteFunc: func(o any) {
			for _, f := range gone {
				f(o)
			}
			changed()
		},
		UpdateFunc: func(old, now any) {
			if differ(old, now) {
				changed()
			}
		},
	})
	// None of them fails before a start.
	utilruntime.Must(errors.Join(added, informer.SetTransform(slim), informer.SetWatchErrorHandlerWithContext(func(of context.Context, r *cache.Reflector, err error) {
		if ctx.Err() == nil { // an end is no fault
			cache.DefaultWatchErrorHandler(of, r, err)
		}
	})))
	w := &watched{store: informer.GetStore(), synced: informer.HasSynced, done: make(chan struct{})}
	var group sync.WaitGroup
	group.Go(func() { informer.RunWithContext(ctx) })
	group.Go(func() { // the first list may be empty, and then no handler is called
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			changed()
		}
	})
	go func() {
		group.Wait()
		close(w.done)
	}()
	return w
}

// differ compares what slim left, apart from the version, which every status changes.
func differ(old, now any) bool {
	switch a := old.(type) {
	case *corev1.Pod:
		if b, same := now.(*corev1.Pod); same {
			x, y := *a, *b
			x.ResourceVersion, y.ResourceVersion = "", ""
			return !equality.Semantic.DeepEqual(&x, &y)
		}
	case *corev1.Namespace:
		if b, same := now.(*corev1.Namespace); same {
			return a.UID != b.UID || !maps.Equal(a.Labels, b.Labels)
		}
	case *networkingv1.NetworkPolicy:
		if b, same := now.(*networkingv1.NetworkPolicy); same {
			return a.UID != b.UID || a.Annotations[program.NotKept] != b.Annotations[program.NotKept] || !equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
		}
	}
	return true
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp, Labels: m.Labels}
}

func slimNamespace(o any) (any, error) {
	n, ok := o.(*corev1.Namespace)
	if !ok {
		return o, nil
	}
	return &corev1.Namespace{ObjectMeta: slimMeta(n.ObjectMeta)}, nil
}

// slimPod keeps of a pod what policies look at, and of containers the ports that have names.
func slimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{
		ObjectMeta: slimMeta(p.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: p.Spec.NodeName, HostNetwork: p.Spec.HostNetwork},
		Status:     corev1.PodStatus{PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs, Phase: p.Status.Phase},
	}
	var named []corev1.ContainerPort
	keep := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.Name != "" {
				named = append(named, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol})
			}
		}
	}
	for i := range p.Spec.Containers {
		keep(&p.Spec.Containers[i])
	}
	for i := range p.Spec.InitContainers { // sidecars serve, too
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			keep(c)
		}
	}
	if len(named) > 0 {
		slim.Spec.Containers = []corev1.Container{{Ports: named}}
	}
	if slim.Status.Phase != corev1.PodSucceeded && slim.Status.Phase != corev1.PodFailed {
		slim.Status.Phase = "" // only an end matters
	}
	return slim, nil
}

// cluster is what is known by now, and whether that is all: false while a first list is
// awaited. It begins to watch pods with the first policy, and ends that with the last.
func (s *source) cluster(ctx context.Context) (*program.Cluster, bool) {
	s.renew(ctx)
	if !s.policies.synced() {
		return nil, false
	}
	c := &program.Cluster{Ranges: s.ranges, Namespaces: map[string]map[string]string{}}
	for _, o := range s.policies.store.List() {
		c.Policies = append(c.Policies, o.(*networkingv1.NetworkPolicy))
	}
	if len(c.Policies) == 0 {
		s.rest()
		return c, true
	}
	s.mu.Lock()
	if s.end == nil {
		inner, cancel := context.WithCancel(ctx)
		s.end = cancel
		s.pods = watch(inner, s.core, "pods", &corev1.Pod{}, slimPod, s.changed)
		s.namespaces = watch(inner, s.core, "namespaces", &corev1.Namespace{}, slimNamespace, s.changed)
	}
	pods, namespaces := s.pods, s.namespaces
	s.mu.Unlock()
	if !pods.synced() || !namespaces.synced() {
		return nil, false
	}
	for _, o := range namespaces.store.List() {
		ns := o.(*corev1.Namespace)
		c.Namespaces[ns.Name] = ns.Labels
	}
	c.Pods = s.podsOf(pods.store.List())
	return c, true
}

// podsOf are pods as policies see them: the same objects for what did not change.
func (s *source) podsOf(list []any) []*program.Pod {
	known := make(map[string]seenPod, len(list))
	pods := make([]*program.Pod, 0, len(list))
	for _, o := range list {
		object := o.(*corev1.Pod)
		name := object.Namespace + "/" + object.Name
		seen := s.known[name]
		if seen.object != object {
			p := podOf(object, s.node)
			if seen.pod == nil || p == nil || !reflect.DeepEqual(p, seen.pod) {
				seen.pod = p
			}
			seen.object = object
		}
		known[name] = seen
		if seen.pod != nil {
			pods = append(pods, seen.pod)
		}
	}
	s.known = known
	return pods
}

// podOf is a pod as policies see it; nil: they do not.
func podOf(p *corev1.Pod, node string) *program.Pod {
	if p.Spec.HostNetwork || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	out := &program.Pod{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Created: p.CreationTimestamp.Time, Labels: p.Labels, Local: p.Spec.NodeName == node}
	ips := p.Status.PodIPs
	if len(ips) == 0 && p.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	for _, ip := range ips {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			out.Addresses = append(out.Addresses, a.Unmap().WithZone(""))
		}
	}
	if len(out.Addresses) == 0 {
		return nil
	}
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if protocol, known := program.Protocol(port.Protocol); known && port.ContainerPort > 0 && port.ContainerPort <= 65535 {
				out.Ports = append(out.Ports, program.Port{Name: port.Name, Protocol: protocol, Number: uint16(port.ContainerPort)})
			}
		}
	}
	return out
}

// rest ends the watches of pods and namespaces.
func (s *source) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end == nil {
		return
	}
	s.end()
	<-s.pods.done
	<-s.namespaces.done
	s.end, s.pods, s.namespaces, s.known = nil, nil, nil, nil
}

// wait waits for the goroutines after the context of newSource ended.
func (s *source) wait() {
	s.rest()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies.stop()
	if s.next != nil {
		s.next.stop()
	}
}
