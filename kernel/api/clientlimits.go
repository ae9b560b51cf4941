package api

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"pintle.dev/pintle/kernel/api/limits"
)

// clientLimits are what one client may hold beside its turns.
type clientLimits struct {
	bodies      *limits.Bodies
	watches     *limits.Watches
	connections *limits.Connections
}

func newClientLimits(l Limits, serializer runtime.NegotiatedSerializer) clientLimits {
	refuse := refusal(serializer)
	return clientLimits{
		bodies:      limits.NewBodies(l.Bodies, maxBody, refuse),
		watches:     limits.NewWatches(l.Watches, l.WatchesPerUser, refuse),
		connections: limits.NewConnections(l.Connections, l.ConnectionsPerUser, l.ConnectionsPerSource, refuse),
	}
}

// refusal answers a request with an error.
func refusal(serializer runtime.NegotiatedSerializer) limits.Refuse {
	return func(w http.ResponseWriter, req *http.Request, err error) {
		gv := schema.GroupVersion{Version: "v1"}
		if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest {
			gv = schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
		}
		responsewriters.ErrorNegotiated(err, serializer, gv, w, req)
	}
}

func (l clientLimits) collectors() []prometheus.Collector {
	return limits.Collectors(l.bodies, l.watches, l.connections)
}

// before applies the limits by the way that a request comes. The body of a plugin's
// request, on a socket, is read before its turn as anybody's; its open requests and
// connections the socket's own gate counts. What the kernel asks itself has come.
func (l clientLimits) before(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	bodies := l.bodies.Before(next, longRunning)
	network := l.connections.Before(l.watches.Before(bodies, longRunning))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.RemoteAddr == inprocessAddr:
			next.ServeHTTP(w, req)
		case hasIdentity(req.Context()):
			bodies.ServeHTTP(w, req)
		default:
			network.ServeHTTP(w, req)
		}
	})
}
