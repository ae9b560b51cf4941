package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apiserver/pkg/endpoints/request"
	storagemetrics "k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// storePath is where Config.StoreHandler is served, as nonResourceURL /kernel/store/*. No role of the system grants
// it: it is the administrator's.
const storePath = "/kernel/store/"

// inspectPath is where Config.InspectHandler is served, granted to nobody else either.
const inspectPath = "/inspect/v1alpha1/"

// withOperatorPaths adds the operator's requests to those that may take long: a backup is not cut off after a minute,
// and ends when the server stops.
func withOperatorPaths(check request.LongRunningRequestCheck) request.LongRunningRequestCheck {
	return func(req *http.Request, info *request.RequestInfo) bool {
		own := strings.HasPrefix(info.Path, storePath) || strings.HasPrefix(info.Path, inspectPath)
		return own && !info.IsResourceRequest || check(req, info)
	}
}

// tracerOfOthers is shut down by who made it, when nobody makes spans any more.
type tracerOfOthers struct{ trace.TracerProvider }

func (tracerOfOthers) Shutdown(context.Context) error { return nil }

// metrics serves /metrics with more than the machinery's.
type metrics struct{ handler http.Handler }

func newMetrics(collectors []prometheus.Collector, wrap func(prometheus.Gatherer) prometheus.Gatherer) (metrics, error) {
	// What is counted of each kind's objects is told with any backend.
	storagemetrics.Register()
	own := prometheus.NewRegistry()
	for _, c := range collectors {
		if err := own.Register(c); err != nil {
			return metrics{}, fmt.Errorf("metrics: %w", err)
		}
	}
	var all prometheus.Gatherer = prometheus.Gatherers{legacyregistry.DefaultGatherer, own}
	if wrap != nil {
		all = wrap(all)
	}
	// One that cannot be collected keeps nobody from the others.
	return metrics{promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})}, nil
}

func (m metrics) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/metrics" && req.Method == http.MethodGet {
			m.handler.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}
