package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/rbac"
)

// drain is how long connections may take to end after the last request.
const drain = 2 * time.Second

// startGrace is how long a stop waits for the start to come to its end.
const startGrace = 10 * time.Second

// Run serves until ctx is done and returns when the requests under way have
// ended, or with the error that kept the server from becoming ready. Call it
// once.
func (s *Server) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	s.fail = func(err error) {
		if err != nil && s.cfg.Failing != nil {
			s.cfg.Failing()
		}
		end(err)
	}
	defer s.fail(nil)
	defer s.stopAll()
	defer s.kubelets.close()
	prepared := s.generic.PrepareRun()
	prepared.ShutdownTimeout = drain
	s.running.Store(true)
	defer s.running.Store(false)
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		s.watchReadiness(ctx)
	}()
	defer context.AfterFunc(ctx, s.stopAll)()
	// The API machinery ends the process when a stop overtakes a hook of the
	// start, so the stop waits for those hooks.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		s.await(serving, "/readyz/poststarthook/crd-informer-synced", startGrace)
		stop()
	})()
	err := prepared.RunWithContext(serving)
	s.fail(err)
	<-watcher
	s.stopAll()
	s.background.Wait()
	s.informers.Shutdown()
	s.extensions.Informers.Shutdown()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("api server: %w", cause)
	}
	return nil
}

// hook runs work after the server has begun to serve. An error stops the
// server: the API machinery itself would end the process.
func (s *Server) hook(name string, work func(context.Context) error) error {
	return s.generic.AddPostStartHook(name, func(ctx genericapiserver.PostStartHookContext) error {
		if err := work(ctx); err != nil {
			s.fail(fmt.Errorf("%s: %w", name, err))
			<-ctx.Done()
		}
		return nil
	})
}

// whenReady runs work in the background from when the server is ready, as its
// namespaces are then, until it stops.
func (s *Server) whenReady(work func(context.Context)) {
	s.background.Go(func() {
		select {
		case <-s.ready:
			work(s.stopping)
		case <-s.stopping.Done():
		}
	})
}

// watchReadiness closes ready when /readyz says ok.
func (s *Server) watchReadiness(ctx context.Context) {
	if s.await(ctx, "/readyz", 0) {
		close(s.ready)
	}
}

// await polls a health check until it is ok, ctx is done or the time is up;
// 0 is no limit.
func (s *Server) await(ctx context.Context, path string, limit time.Duration) bool {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	client := &http.Client{Transport: s.ClientConfig(&user.DefaultInfo{Name: user.APIServerUser, Groups: loopbackGroups}).Transport}
	ask := func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://inprocess"+path, nil)
		if err != nil {
			return false
		}
		res, err := client.Do(req)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// rightsGrace is how long a start waits for default roles that are taken away as
// soon as they are written.
const rightsGrace = 10 * time.Second

// awaitRights waits until authorization holds what was there at the start and
// the policy written since, which comes to it a moment after it is stored. The
// identities of the system would be refused before.
func (s *Server) awaitRights(ctx context.Context, written rbac.Policy, limit time.Duration) error {
	tick := 2 * time.Millisecond
	if err := wait.PollUntilContextCancel(ctx, tick, true, func(context.Context) (bool, error) {
		return s.rbac.HasSynced(), nil
	}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, tick, limit, true, func(context.Context) (bool, error) {
		return s.rbac.Holds(written), nil
	})
}

// handler is the whole chain, or nil while the server does not run.
func (s *Server) handler() http.Handler {
	if !s.running.Load() {
		return nil
	}
	return s.generic.Handler
}

// Port is the TCP port served.
func (s *Server) Port() int {
	if a, ok := s.listener.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// URL is where clients on this machine reach the server.
func (s *Server) URL() string {
	host := s.cfg.BindAddress
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(s.Port()))
}

// AdminKubeconfig is the path of the administrator's kubeconfig.
func (s *Server) AdminKubeconfig() string { return filepath.Join(s.cfg.DataDir, "admin.kubeconfig") }

// SuperAdminKubeconfig is the path of the kubeconfig of system:masters.
func (s *Server) SuperAdminKubeconfig() string {
	return filepath.Join(s.cfg.DataDir, "super-admin.kubeconfig")
}

// PKI holds the cluster's keys, from which the node agent's certificates are
// issued.
func (s *Server) PKI() *pki.PKI { return s.pki }
