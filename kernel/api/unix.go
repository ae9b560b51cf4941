package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// maxConnections of one socket at a time; further ones wait. A client that speaks
// HTTP/1.1 alone needs one for each watch, and a cluster has some hundred kinds.
const maxConnections = 512

// ListenUnix opens a unix socket at path for ServeUnix: who is told the path
// after it returned can connect. Its directory is made 0700 if it does not
// exist, the socket itself is 0600 and belongs to gate's user, if it has one.
// A stale socket at path is removed.
func ListenUnix(ctx context.Context, path string, gate *Gate) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("api socket %s: make its directory: %w", path, err)
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("api socket %s: remove the stale one: %w", path, err)
		}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("api socket %s: listen: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("api socket %s: restrict to its owner: %w", path, err)
	}
	if gate != nil && gate.UID > 0 {
		if err := os.Lchown(path, gate.UID, gate.GID); err != nil {
			ln.Close()
			return nil, fmt.Errorf("api socket %s: hand it to its user: %w", path, err)
		}
	}
	return ln, nil
}

// ServeUnix serves the API on a socket of ListenUnix until ctx is done. Each
// request over it is authenticated as u, so the socket is its credential. The
// scheme is http; HTTP/1.1 and unencrypted HTTP/2 with prior knowledge both
// work. gate, which may be nil, bounds what comes through.
func (s *Server) ServeUnix(ctx context.Context, ln net.Listener, u user.Info, gate *Gate) error {
	path := ln.Addr().String()
	if gate == nil {
		gate = &Gate{}
	}
	ln = limitListener(ln, maxConnections, func() {
		s.log.Warn("all connections that a plugin may have to the API are open; further ones wait", "user", u.GetName(), "connections", maxConnections)
	})
	u = authenticated(u)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			h := s.handler()
			if h == nil {
				http.Error(w, "api server is not running", http.StatusServiceUnavailable)
				return
			}
			gate.serve(h, w, req)
		}),
		BaseContext:       func(net.Listener) context.Context { return context.WithValue(withIdentity(ctx, u), socketKey{}, true) },
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ReadHeaderTimeout: 30 * time.Second,
		MaxHeaderBytes:    1 << 20,
		ErrorLog:          s.httpErrorLog(),
	}
	// The base context ends with ctx, which ends the watches; Shutdown then
	// waits for the rest.
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err := srv.Shutdown(grace)
		if err != nil {
			err = srv.Close()
		}
		stopped <- err
	})
	err := srv.Serve(ln)
	if stop() {
		return fmt.Errorf("api socket %s: serve: %w", path, err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("api socket %s: stop: %w", path, err)
	}
	return nil
}
