package kernel

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/hollow"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/nodepart"
)

// startHollow runs simulated nodes in this process: real agents over a runtime that runs
// nothing.
func (k *Kernel) startHollow(ctx context.Context, cfg *config.Config) error {
	endpoint, err := nodepart.StartRuntime(ctx, k.parts, nodepart.RuntimeOptions{
		Plugins: k.host, Name: cfg.Hollow.Runtime, PodCIDR: config.HollowPodRange, Data: k.dirs.data, Sockets: k.dirs.run,
		Keep: func() bool { return false }, Logger: k.log,
	})
	if err != nil {
		return err
	}
	admin, _, err := k.client(hostIdentity)
	if err != nil {
		return err
	}
	pods, err := k.api.Source(corev1.SchemeGroupVersion.WithResource("pods"), node.BoundPods())
	if err != nil {
		return err
	}
	nodes, err := k.api.Source(corev1.SchemeGroupVersion.WithResource("nodes"), nil)
	if err != nil {
		return err
	}
	simulated, err := hollow.New(ctx, hollow.Config{
		Prefix: cfg.Hollow.Prefix, Nodes: cfg.Hollow.Nodes, RuntimeName: cfg.Hollow.Runtime, KubeletVersion: api.GitVersion,
		RootDir:       filepath.Join(k.dirs.data, "hollow"),
		LeaseDuration: cfg.Hollow.LeaseDuration, StatusReport: cfg.Hollow.StatusReportFrequency, Limits: hollow.Beside,
	}, hollow.Deps{
		Socket: endpoint.Socket, Admin: admin, Identity: func(name string) *rest.Config { return k.api.ClientConfig(nodeIdentity(name)) },
		Pods: node.NewPodSourceFrom(pods), Nodes: nodestatus.NewSourceFrom(nodes), InFlight: k.api.InFlight, Logger: k.log.With("part", "node"),
	})
	if err != nil {
		return err
	}
	started := make(chan struct{})
	k.parts.Start("hollow nodes", func(ctx context.Context) error { return simulated.Run(ctx, started) }, nil)
	if err := k.await(ctx, started); err != nil {
		return err
	}
	k.step("hollow", "%d simulated nodes: no container runs on them", cfg.Hollow.Nodes)
	return nil
}
