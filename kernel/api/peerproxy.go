package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/identitylease"
	"pintle.dev/pintle/kernel/api/peerproxy"
)

// identity names this server among those of the cluster.
func (s *Server) identity() (id, hostname string, err error) {
	if hostname, err = os.Hostname(); err != nil {
		return "", "", fmt.Errorf("identity of the server: %w", err)
	}
	dir, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		return "", "", fmt.Errorf("identity of the server: %w", err)
	}
	return identitylease.Identity(hostname, dir), hostname, nil
}

// findMembers makes the list of the cluster's API servers, where there may be several.
func (s *Server) findMembers() error {
	store, ok := s.cfg.Backend.(peerproxy.Store)
	if !ok || !s.cfg.Backend.Shared() || !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.UnknownVersionInteroperabilityProxy) {
		return nil
	}
	if !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.APIServerIdentity) {
		s.log.Warn("API servers do not pass requests on to each other: feature gate APIServerIdentity is off")
		return nil
	}
	id, hostname, err := s.identity()
	if err != nil {
		return err
	}
	front, err := s.pki.FrontProxy()
	if err != nil {
		return err
	}
	s.members = peerproxy.NewMembers(peerproxy.Self{
		ID: id, Hostname: hostname, Address: net.JoinHostPort(s.cfg.AdvertiseAddress, strconv.Itoa(s.Port())), Authority: front.CAPEM(),
	}, store, clock.RealClock{}, s.log)
	return nil
}

// fromMembers believes the cluster's other API servers who a request is from.
func (s *Server) fromMembers(ways authenticator.Request) authenticator.Request {
	if s.members == nil {
		return ways
	}
	return s.members.Authenticator(ways, s.audiences, pki.FrontProxyName)
}

// proxyToPeers makes what sends requests to the other API servers, and gives the
// discovery of all, nil where this one is alone.
func (s *Server) proxyToPeers(crds *apiextensions.CustomResourceDefinitions) (http.Handler, error) {
	if s.members == nil {
		return nil, nil
	}
	front, err := s.pki.FrontProxy()
	if err != nil {
		return nil, err
	}
	services, err := s.Source(apiServices, nil)
	if err != nil {
		return nil, err
	}
	s.peers, err = peerproxy.New(peerproxy.Config{
		Members: s.members, Client: s.client, Loopback: s.generic.LoopbackClientConfig, Codecs: s.generic.Serializer,
		CA: s.pki.CAPEM(), Certificate: front.Client().Certificate,
		CRDs: crds.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer(), APIServices: services, Logger: s.log,
	})
	if err != nil {
		return nil, err
	}
	front.Client().AddListener(listener(s.peers.Recertify))
	id, _, err := s.identity()
	if err != nil {
		return nil, err
	}
	all := discoveryendpoint.NewPeerAggregatedDiscoveryHandler(id, s.generic.AggregatedDiscoveryGroupManager, s.peers, "apis")
	s.peers.RegisterCacheInvalidationCallback(all.InvalidateCache)
	return all, nil
}

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// toPeers sends requests for what only others serve there. The handlers are made before
// the proxy is.
func (s *Server) toPeers(next http.Handler) http.Handler {
	if s.members == nil {
		return next
	}
	passing := sync.OnceValue(func() http.Handler { return s.peers.Before(next) })
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { passing().ServeHTTP(w, req) })
}

func (s *Server) hookMembers() error {
	if s.peers == nil {
		return nil
	}
	return firstError(
		s.hook("mixed-version-proxy-handler", func(ctx context.Context) error {
			if err := s.members.Announce(ctx); err != nil {
				return err
			}
			s.background.Go(func() { s.members.Run(s.stopping) })
			return s.peers.Start(s.stopping, &s.background)
		}),
		s.generic.AddPreShutdownHook("peer-endpoint-reconciler-controller", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
			defer cancel()
			return s.members.Withdraw(ctx)
		}),
	)
}
