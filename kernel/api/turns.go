package api

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	genericfilters "k8s.io/apiserver/pkg/server/filters"
	"k8s.io/apiserver/pkg/storage"
	storagemetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"

	"pintle.dev/pintle/kernel/api/flowcontrol"
)

// inTurn holds requests back until it is their turn, or without priority and
// fairness refuses those above a bound.
func (s *Server) inTurn(next http.Handler, c *genericapiserver.Config) http.Handler {
	if s.turns == nil {
		return genericfilters.WithMaxInFlightLimit(next, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight, c.LongRunningFunc)
	}
	return s.turns.Before(next, c.LongRunningFunc, c.RequestTimeout/4)
}

// startTurns writes the objects that turns go by, keeps them, and counts objects.
func (s *Server) startTurns(ctx context.Context) error {
	if s.turns == nil {
		return nil
	}
	// The levels are there when the server is ready. A failure is told and mended
	// by the rounds that follow: until then requests share the level catch-all.
	if err := flowcontrol.Ensure(ctx, s.starter.FlowcontrolV1()); err != nil && ctx.Err() == nil {
		s.log.Warn("the objects of API priority and fairness cannot be written yet", "error", err)
	}
	counters := make(map[schema.GroupResource]flowcontrol.Counter, len(s.stores))
	for resource, store := range s.stores {
		counters[resource] = func(ctx context.Context) (storage.Stats, error) {
			stats, err := store.Storage.Stats(ctx)
			if ctx.Err() == nil {
				storagemetrics.UpdateStoreStats(resource, stats, err)
			}
			return stats, err
		}
	}
	s.background.Go(func() { flowcontrol.Observe(s.stopping, s.turns.Tracker, counters, s.log) })
	s.background.Go(func() { flowcontrol.Maintain(s.stopping, s.starter.FlowcontrolV1(), s.log) })
	return nil
}
