package pluginaccess

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// mostConnections bounds those of one plugin; further ones wait.
	mostConnections = 100
	// stopTimeout is how long requests may take to end when the socket does.
	stopTimeout = 5 * time.Second
)

// Serve serves a socket until ctx ends.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	path := ln.Addr().String()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return ctx }, Protocols: protocols,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}, ReadHeaderTimeout: 30 * time.Second, MaxHeaderBytes: 1 << 20,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		stopped <- err
	})
	err := srv.Serve(netutil.LimitListener(ln, mostConnections))
	if stop() {
		return fmt.Errorf("api socket %s: serve: %w", path, err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api socket %s: stop: %w", path, err)
	}
	return nil
}
