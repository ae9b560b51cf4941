package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// exposition serves /metrics to those that the server answers.
type exposition struct {
	server *http.Server
	wg     sync.WaitGroup
}

func serveMetrics(listener net.Listener, allow ranges, log *slog.Logger) *exposition {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.DefaultGatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 8 * time.Second}))
	x := &exposition{server: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from, err := netip.ParseAddrPort(r.RemoteAddr)
			if err != nil || !allow.contain(from.Addr()) {
				http.Error(w, "metrics are for pods and for the node", http.StatusForbidden)
				return
			}
			mux.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}}
	x.wg.Go(func() {
		if err := x.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are served no more", "error", err)
		}
	})
	return x
}

func (x *exposition) close(ctx context.Context) error {
	err := x.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, x.server.Close())
	}
	x.wg.Wait()
	return err
}
