package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/util/retry"
)

// Registry lists the API servers of a cluster that live. A Backend that is
// shared implements it.
type Registry interface {
	// Announce lists this server for a while, longer than announceEvery.
	Announce(ctx context.Context, address string) error
	// Withdraw takes it from the list.
	Withdraw(ctx context.Context, address string) error
	// Peers are the addresses listed.
	Peers(ctx context.Context) ([]string, error)
}

const (
	// announceEvery is how often a server says that it lives and brings the
	// service's endpoints to the list, as upstream's endpoint reconciler does.
	announceEvery = 10 * time.Second
	// withdrawTimeout bounds what a stop takes for taking the server off.
	withdrawTimeout = 2 * time.Second
)

// registry is nil where this server is the only one.
func (s *Server) registry() Registry {
	r, ok := s.cfg.Backend.(Registry)
	if !ok || !s.cfg.Backend.Shared() {
		return nil
	}
	return r
}

// reachable reports whether pods can reach the advertised address: loopback is
// another machine's own, and the API refuses such endpoints.
func (s *Server) reachable() bool { return !net.ParseIP(s.cfg.AdvertiseAddress).IsLoopback() }

// ensurePeers publishes all servers that live as the service's endpoints.
func (s *Server) ensurePeers(ctx context.Context, r Registry) error {
	if err := r.Announce(ctx, s.cfg.AdvertiseAddress); err != nil {
		return err
	}
	addresses, err := r.Peers(ctx)
	if err != nil {
		return err
	}
	if len(addresses) == 0 {
		return errors.New("no API server IP addresses were listed in storage, refusing to erase all endpoints for the kubernetes Service")
	}
	// Another server may do the same at the same time.
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error { return s.publishEndpoints(ctx, addresses) })
}

// keepPeers keeps the endpoints at the servers that live until the server stops.
func (s *Server) keepPeers(r Registry) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stopping.Done():
			return
		case <-tick.C:
		}
		if err := s.ensurePeers(s.stopping, r); err != nil && s.stopping.Err() == nil {
			s.log.Warn("endpoints of service default/kubernetes are not current", "error", err)
		}
	}
}

// withdraw leaves the endpoints to the other servers; it runs while requests
// are still served. Nobody waits for an etcd that is gone.
func (s *Server) withdraw(r Registry) error {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	err := r.Withdraw(ctx, s.cfg.AdvertiseAddress)
	var rest []string
	if err == nil {
		rest, err = r.Peers(ctx)
	}
	if err == nil && len(rest) > 0 {
		err = s.publishEndpoints(ctx, rest)
	}
	if err != nil {
		return fmt.Errorf("endpoints of service default/kubernetes: %w", err)
	}
	return nil
}

// hookPeers keeps the list of servers while this one runs.
func (s *Server) hookPeers() error {
	r := s.registry()
	if r == nil || !s.reachable() {
		return nil
	}
	return firstError(
		s.hook("endpoint-reconciler", func(context.Context) error {
			s.background.Go(func() { s.keepPeers(r) })
			return nil
		}),
		s.generic.AddPreShutdownHook("withdraw-endpoint", func() error { return s.withdraw(r) }),
	)
}
