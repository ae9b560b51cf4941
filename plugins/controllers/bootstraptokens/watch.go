package bootstraptokens

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// only selects by one field.
func only(field, value string) func(*metav1.ListOptions) {
	selector := fields.OneTermEqualSelector(field, value).String()
	return func(o *metav1.ListOptions) { o.FieldSelector = selector }
}

// tokensOf watches the Secrets of bootstrap tokens with a controller's own rights.
func tokensOf(c *controller.Context) cache.SharedIndexInformer {
	return coreinformers.NewFilteredSecretInformer(c.Client, metav1.NamespaceSystem, 0, cache.Indexers{}, only("type", string(corev1.SecretTypeBootstrapToken)))
}

// follow runs a loop on informers that are the controller's own, until ctx ends.
func follow[K comparable](ctx context.Context, loop *queue.Loop[K], watches ...queue.Watch) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, w := range watches {
		running.Go(func() { w.Informer.Run(ctx.Done()) })
	}
	return loop.Follow(ctx, watches...)
}
