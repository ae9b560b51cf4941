package runtime

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// NewClient returns the runtime of that name behind a connection to its process.
func NewClient(conn grpc.ClientConnInterface, name string) Runtime {
	return &client{runtimes: contractv1.NewRuntimesClient(conn), name: name}
}

type client struct {
	runtimes contractv1.RuntimesClient
	name     string
}

var _ Runtime = (*client)(nil)

func (c *client) Start(ctx context.Context, o Options) (Endpoint, error) {
	ready, err := c.runtimes.Start(ctx, &contractv1.RuntimeStart{
		Name: c.name, Config: o.Config, DataDirectory: o.DataDirectory, StateDirectory: o.StateDirectory,
		ArtifactDirectory: o.ArtifactDirectory, NodeName: o.NodeName, PodCidr: o.PodCIDR, CgroupParent: o.CgroupParent, ClusterCidrs: o.ClusterCIDRs,
		Pods: &contractv1.PodNetwork{Mtu: int32(o.Pods.MTU), CniConfigurations: o.Pods.CNIConfigurations, CniPlugins: o.Pods.CNIPlugins},
	})
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{
		Socket: ready.GetCriSocket(), ImageSocket: ready.GetImageSocket(),
		Version: ready.GetVersion(), Message: ready.GetMessage(),
	}, nil
}

func (c *client) Status(ctx context.Context) (uint64, error) {
	s, err := c.runtimes.Status(ctx, &contractv1.RuntimeStatusRequest{Name: c.name})
	if err != nil {
		return 0, err
	}
	if !s.GetReady() {
		return s.GetGeneration(), errors.New(s.GetMessage())
	}
	return s.GetGeneration(), nil
}

func (c *client) Stop(ctx context.Context, keepContainers bool) error {
	_, err := c.runtimes.Stop(ctx, &contractv1.RuntimeStop{Name: c.name, KeepContainers: keepContainers})
	return err
}
