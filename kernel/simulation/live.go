package simulation

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"pintle.dev/pintle/kernel/readable"
	"pintle.dev/pintle/kernel/scheduler"
)

// Live lists through the API what the scheduler of a kernel sees: nodes, pods, and all
// that plugins may read. A kind that the API does not serve is empty.
func Live(ctx context.Context, client kubernetes.Interface) (*scheduler.Cluster, error) {
	resources := []schema.GroupVersionResource{v1.SchemeGroupVersion.WithResource("nodes"), v1.SchemeGroupVersion.WithResource("pods")}
	for _, name := range readable.Names() {
		kind, _ := readable.Of(name)
		resources = append(resources, kind.Resource)
	}
	cluster := &scheduler.Cluster{}
	for _, r := range resources {
		path := []string{"/apis", r.Group, r.Version, r.Resource}
		if r.Group == "" {
			path = slices.Concat([]string{"/api"}, path[2:])
		}
		raw, err := client.Discovery().RESTClient().Get().AbsPath(path...).Do(ctx).Raw()
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		list, _, err := scheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
		if err := cluster.Add(list); err != nil {
			return nil, fmt.Errorf("list %s: %w", r.GroupResource(), err)
		}
	}
	return cluster, nil
}
