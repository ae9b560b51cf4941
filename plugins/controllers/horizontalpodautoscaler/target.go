package horizontalpodautoscaler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"
)

// rediscovery is how long kinds are taken for known, as kube-controller-manager has it.
const rediscovery = 30 * time.Second

// scales finds and changes the size of a target.
type scales interface {
	// find returns the target's scale and the resource that it was found at.
	find(ctx context.Context, namespace string, ref *autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, schema.GroupResource, error)
	// resize asks for a number of replicas. The scale is the one that find returned.
	resize(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale, replicas int32) error
}

// targets is scales over the API.
type targets struct {
	mapper meta.RESTMapper
	client scale.ScalesGetter
}

var _ scales = (*targets)(nil)

func newTargets(config *rest.Config) (*targets, error) {
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("discovery client: %w", err)
	}
	mapper := newForgetful(restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found)))
	client, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(found))
	if err != nil {
		return nil, fmt.Errorf("scale client: %w", err)
	}
	return &targets{mapper: mapper, client: client}, nil
}

func (t *targets) find(ctx context.Context, namespace string, ref *autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, schema.GroupResource, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, schema.GroupResource{}, specErrorf("%w", err)
	}
	mappings, err := t.mapper.RESTMappings(schema.GroupKind{Group: gv.Group, Kind: ref.Kind})
	if err != nil {
		return nil, schema.GroupResource{}, err
	}
	var first error
	for _, m := range mappings {
		got, err := t.client.Scales(namespace).Get(ctx, m.Resource.GroupResource(), ref.Name, metav1.GetOptions{})
		if err == nil && (got.Namespace != namespace || got.Name != ref.Name) {
			// An API server of somebody's answers it: what is written goes to no other object.
			err = fmt.Errorf("the scale of %s %q in namespace %q is said to be that of %q in %q", m.Resource.GroupResource(), ref.Name, namespace, got.Name, got.Namespace)
		}
		if err == nil {
			return got, m.Resource.GroupResource(), nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = errors.New("unrecognized resource")
	}
	return nil, schema.GroupResource{}, first
}

func (t *targets) resize(ctx context.Context, resource schema.GroupResource, scale *autoscalingv1.Scale, replicas int32) error {
	client := t.client.Scales(scale.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		scale.Spec.Replicas = replicas
		_, err := client.Update(ctx, resource, scale, metav1.UpdateOptions{})
		if err == nil {
			return nil
		}
		// What a next attempt changes is what is there now.
		if latest, fault := client.Get(ctx, resource, scale.Name, metav1.GetOptions{}); fault == nil {
			scale.ResourceVersion, scale.UID = latest.ResourceVersion, latest.UID
		}
		return err
	})
}

// forgetful is a mapper that asks anew which kinds there are, where it is used longer
// than a while after it last did. A mapper that is not used asks nothing.
type forgetful struct {
	meta.ResettableRESTMapper
	mu   sync.Mutex
	last time.Time
}

func newForgetful(m meta.ResettableRESTMapper) *forgetful {
	return &forgetful{ResettableRESTMapper: m, last: time.Now()}
}

// RESTMappings implements meta.RESTMapper, as do the others.
func (f *forgetful) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	f.forget()
	return f.ResettableRESTMapper.RESTMappings(gk, versions...)
}

// RESTMapping finds one mapping.
func (f *forgetful) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	f.forget()
	return f.ResettableRESTMapper.RESTMapping(gk, versions...)
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.last) > rediscovery {
		f.last = time.Now()
		f.Reset()
	}
}
