package api

import (
	"context"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Server is the API server.
type Server struct {
	cfg   Config
	log   *slog.Logger
	ready chan struct{}
	parts

	inFlight atomic.Int64 // requests that are neither watches nor streams
}

// InFlight is how many requests are being served, watches and streams apart.
func (s *Server) InFlight() int { return int(s.inFlight.Load()) }

// Ready is closed when /readyz is ok.
func (s *Server) Ready() <-chan struct{} { return s.ready }

func (s *Server) httpErrorLog() *log.Logger {
	return slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
}

// ClientConfig returns a client configuration whose requests call the handler
// chain in this process as u: no socket, no TLS, protobuf where the types have
// it, no client-side rate limit. Upgrades (exec, port-forward) need a real
// connection.
func (s *Server) ClientConfig(u user.Info) *rest.Config {
	u = authenticated(u)
	return &rest.Config{
		Host: "http://inprocess",
		Transport: &inprocess{
			handler:  s.handler,
			identity: func(ctx context.Context) context.Context { return withIdentity(ctx, u) },
		},
		ContentConfig: rest.ContentConfig{
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
			ContentType:        "application/vnd.kubernetes.protobuf",
		},
		QPS:       -1,
		UserAgent: userAgent(u),
	}
}

var (
	_ interface {
		Run(context.Context) error
		Ready() <-chan struct{}
		URL() string
		Port() int
		AdminKubeconfig() string
		ClientConfig(user.Info) *rest.Config
		ServeUnix(context.Context, net.Listener, user.Info, *Gate) error
		Source(schema.GroupVersionResource, fields.Selector) (cache.ListerWatcher, error)
		Bind(context.Context, *corev1.Binding) error
	} = (*Server)(nil)
	_ http.RoundTripper = (*inprocess)(nil)
)

func userAgent(u user.Info) string { return "pintle/" + u.GetName() }
