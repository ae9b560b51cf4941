package podchange

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	endpointsliceutil "k8s.io/endpointslice/util"

	"pintle.dev/pintle/plugins/controllers/queue"
)

// Changes is the queue of changes of pods, with its workers.
type Changes struct {
	*queue.Loop[*endpointsliceutil.PodProjectionKey]
}

// New returns a queue that is called name in the log. Its workers call add with
// the namespace/name of each service that a change concerns.
func New(log *slog.Logger, name string, workers, retries int, services corelisters.ServiceLister, add func(service string)) *Changes {
	return &Changes{queue.New(log, func(_ context.Context, change *endpointsliceutil.PodProjectionKey) error {
		concerned, err := endpointsliceutil.GetServicesToUpdate(services, change)
		for service := range concerned {
			add(service)
		}
		return err
	}, queue.Options[*endpointsliceutil.PodProjectionKey]{Name: name, Workers: workers, Retries: retries})}
}

// Handler is what the informer of pods calls.
func (c *Changes) Handler() cache.ResourceEventHandler {
	return queue.On(func(old, current *corev1.Pod) {
		// A nil *Pod in an interface is not nil, so absent ones are passed as nil.
		var was, is any
		if old != nil {
			was = old
		}
		if current != nil {
			is = current
		}
		if change := endpointsliceutil.GetPodUpdateProjectionKey(was, is); change != nil {
			c.Add(change)
		}
	})
}
