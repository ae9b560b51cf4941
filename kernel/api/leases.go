package api

import (
	"context"

	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"

	"pintle.dev/pintle/kernel/api/identitylease"
)

// hookIdentity keeps the Lease that says that this server lives, while it runs.
func (s *Server) hookIdentity() error {
	if !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.APIServerIdentity) {
		return nil
	}
	id, hostname, err := s.identity()
	if err != nil {
		return err
	}
	s.generic.APIServerID = id
	keeper := identitylease.New(identitylease.Config{
		Client: s.client, Name: s.generic.APIServerID, Hostname: hostname, Clock: clock.RealClock{}, Logger: s.log,
	})
	return firstError(
		s.hook("start-kube-apiserver-identity-lease-controller", func(context.Context) error {
			s.whenReady(keeper.Run)
			return nil
		}),
		s.generic.AddPreShutdownHook("stop-kube-apiserver-identity-lease-controller", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
			defer cancel()
			return keeper.Release(ctx)
		}),
	)
}

// flags tells what the server is configured with, at /flagz.
type flags func() map[string]string

// GetFlagz implements flagz.Reader.
func (f flags) GetFlagz() map[string]string { return f() }
