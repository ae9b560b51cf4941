package disruption

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

var dynamicPaths = dynamic.LegacyAPIPathResolverFunc

// finder finds what the controllers of pods want.
type finder struct {
	controllers corelisters.ReplicationControllerLister
	deployments appslisters.DeploymentLister
	sets        appslisters.ReplicaSetLister
	others      *scales
	informers   []cache.SharedIndexInformer
}

func newFinder(shared informers.SharedInformerFactory, others *scales) *finder {
	apps, rcs := shared.Apps().V1(), shared.Core().V1().ReplicationControllers()
	return &finder{
		controllers: rcs.Lister(), deployments: apps.Deployments().Lister(), sets: apps.ReplicaSets().Lister(),
		others: others,
		informers: []cache.SharedIndexInformer{
			rcs.Informer(), apps.Deployments().Informer(), apps.ReplicaSets().Informer(),
		},
	}
}

// expected sums up the replicas that the pods' controllers want, and names the
// pods that have none.
func (f *finder) expected(ctx context.Context, pods []*corev1.Pod) (sum int32, unmanaged []string, err error) {
	asked, counted := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if asked[ref.UID] {
			continue
		}
		asked[ref.UID] = true
		uid, replicas, err := f.replicas(ctx, pod.Namespace, ref)
		if err != nil {
			return 0, nil, err
		}
		if uid == "" {
			return 0, nil, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		if !counted[uid] { // two replica sets of one deployment
			counted[uid] = true
			sum += replicas
		}
	}
	return sum, unmanaged, nil
}

// replicas returns what wants the pods of a controller, and how many; an empty
// UID if there is no such object.
func (f *finder) replicas(ctx context.Context, namespace string, ref *metav1.OwnerReference) (types.UID, int32, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, err
	}
	apps := gv.Group == "apps" || gv.Group == "extensions"
	switch {
	case gv.Group == "" && ref.Kind == "ReplicationController":
		if rc, err := f.controllers.ReplicationControllers(namespace).Get(ref.Name); err == nil && rc.UID == ref.UID {
			return rc.UID, ptr.Deref(rc.Spec.Replicas, 1), nil
		}
	case apps && ref.Kind == "ReplicaSet":
		rs, err := f.sets.ReplicaSets(namespace).Get(ref.Name)
		if err != nil || rs.UID != ref.UID {
			break
		}
		above := metav1.GetControllerOfNoCopy(rs)
		if above == nil || above.Kind != "Deployment" {
			return rs.UID, ptr.Deref(rs.Spec.Replicas, 1), nil
		}
		if d, err := f.deployments.Deployments(namespace).Get(above.Name); err == nil && d.UID == above.UID {
			return d.UID, ptr.Deref(d.Spec.Replicas, 1), nil
		}
	}
	return f.others.replicas(ctx, namespace, gv.WithKind(ref.Kind), ref)
}

// scales asks the scale subresource of any kind.
type scales struct {
	found  discovery.DiscoveryInterface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	client scale.ScalesGetter
}

func newScales(found discovery.DiscoveryInterface, client scale.ScalesGetter) *scales {
	return &scales{found: found, client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

func (s *scales) replicas(ctx context.Context, namespace string, gvk schema.GroupVersionKind, ref *metav1.OwnerReference) (types.UID, int32, error) {
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return "", 0, err
	}
	resource := mapping.Resource.GroupResource()
	got, err := s.client.Scales(namespace).Get(ctx, resource, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		// The object, or the subresource of its kind, is not there.
		has, err := s.served(mapping.Resource)
		if err == nil && !has {
			err = fmt.Errorf("%s does not implement the scale subresource", resource.String())
		}
		return "", 0, err
	}
	if err != nil || got.UID != ref.UID {
		return "", 0, err
	}
	return got.UID, got.Spec.Replicas, nil
}

func (s *scales) served(gvr schema.GroupVersionResource) (bool, error) {
	list, err := s.found.ServerResourcesForGroupVersion(gvr.GroupVersion().String())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool {
		return r.Name == gvr.Resource+"/scale" && r.Kind == "Scale"
	}), nil
}
