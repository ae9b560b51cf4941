package flowcontrol

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	flowcontrolrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// ObservePeriod is how often objects are counted, as upstream.
const ObservePeriod = time.Minute

// Counter says how many objects there are of a resource.
type Counter func(context.Context) (storage.Stats, error)

// Observe counts the objects of each resource at once and once a minute, until ctx
// is done.
func Observe(ctx context.Context, tracker flowcontrolrequest.StorageObjectCountTracker, counters map[schema.GroupResource]Counter, log *slog.Logger) {
	tick := time.NewTicker(ObservePeriod)
	defer tick.Stop()
	for {
		for resource, count := range counters {
			stats, err := count(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				log.Debug("objects are not counted", "resource", resource, "error", err)
				continue
			}
			tracker.Set(resource.String(), stats)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
