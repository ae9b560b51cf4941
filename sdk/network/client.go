package network

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// NewClient returns the network of that name behind a connection to its process.
func NewClient(conn grpc.ClientConnInterface, name string) Network {
	return &client{networks: contractv1.NewNetworksClient(conn), name: name}
}

type client struct {
	networks contractv1.NetworksClient
	name     string
}

var _ Network = (*client)(nil)

func (c *client) Probe(ctx context.Context, config []byte) error {
	probed, err := c.networks.Probe(ctx, &contractv1.NetworkProbe{Name: c.name, Config: config})
	if err != nil {
		return err
	}
	if !probed.GetUsable() {
		return fmt.Errorf("%w: %s", ErrUnusable, probed.GetReason())
	}
	return nil
}

func (c *client) Start(ctx context.Context, o Options) (Pods, error) {
	started, err := c.networks.Start(ctx, &contractv1.NetworkStart{
		Name: c.name, Config: o.Config, NodeName: o.NodeName, NodeIps: o.NodeIPs, PodCidrs: o.PodCIDRs,
		ClusterCidrs: o.ClusterCIDRs, ServiceCidrs: o.ServiceCIDRs, StateDirectory: o.StateDirectory, ApiSocket: o.APISocket,
	})
	if err != nil {
		return Pods{}, err
	}
	p := started.GetPods()
	return Pods{MTU: int(p.GetMtu()), CNIConfigurations: p.GetCniConfigurations(), CNIPlugins: p.GetCniPlugins(), PublicKey: started.GetPublicKey()}, nil
}

func (c *client) Apply(ctx context.Context, diff *Diff) error {
	_, err := c.networks.Apply(ctx, &contractv1.NetworkApply{Name: c.name, Diff: diff})
	return err
}

// statusTimeout bounds how long a plugin may think about its status.
const statusTimeout = 5 * time.Second

func (c *client) Status() Status {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	s, err := c.networks.Status(ctx, &contractv1.NetworkStatusRequest{Name: c.name})
	if err != nil {
		return Status{Message: err.Error()}
	}
	return Status{Ready: s.GetReady(), Message: s.GetMessage(), Generation: s.GetGeneration(), Refused: s.GetRefused()}
}

func (c *client) Stop(ctx context.Context, cleanup bool) error {
	_, err := c.networks.Stop(ctx, &contractv1.NetworkStop{Name: c.name, Cleanup: cleanup})
	return err
}
