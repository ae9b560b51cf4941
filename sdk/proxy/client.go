package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// NewClient returns the proxy of that name behind a connection to its process.
// Its Stop ends the stream of diffs.
func NewClient(conn grpc.ClientConnInterface, name string) Proxy {
	return &client{proxies: contractv1.NewProxiesClient(conn), name: name}
}

type client struct {
	proxies contractv1.ProxiesClient
	name    string

	mu     sync.Mutex
	stream grpc.BidiStreamingClient[contractv1.ProxyApply, contractv1.ProxyApplied]
	cancel context.CancelFunc
}

var _ Proxy = (*client)(nil)

func (c *client) Probe(ctx context.Context, config []byte) error {
	probed, err := c.proxies.Probe(ctx, &contractv1.ProxyProbe{Name: c.name, Config: config})
	if err != nil {
		return err
	}
	if !probed.GetUsable() {
		return fmt.Errorf("%w: %s", ErrUnusable, probed.GetReason())
	}
	return nil
}

func (c *client) Start(ctx context.Context, o Options) error {
	_, err := c.proxies.Start(ctx, &contractv1.ProxyStart{
		Name: c.name, Config: o.Config, NodeName: o.NodeName, NodeIps: o.NodeIPs, PodCidrs: o.PodCIDRs,
		ClusterCidrs: o.ClusterCIDRs, ServiceCidrs: o.ServiceCIDRs, Zone: o.Zone,
		StateDirectory: o.StateDirectory, DataDirectory: o.DataDirectory, ApiSocket: o.APISocket, ClusterDomain: o.ClusterDomain,
	})
	return err
}

// Apply sends a diff on the stream and waits for its answer. When ctx ends
// first the stream is given up, since the answers on it would be off by one.
func (c *client) Apply(ctx context.Context, diff *Diff) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stream, err := c.proxies.Apply(streamCtx)
		if err != nil {
			cancel()
			return err
		}
		c.stream, c.cancel = stream, cancel
	}
	stop := context.AfterFunc(ctx, c.cancel)
	applied, err := c.exchange(diff)
	if !stop() || err != nil {
		c.cancel()
		c.stream, c.cancel = nil, nil
		return errors.Join(ctx.Err(), err)
	}
	if applied.GetError() != "" {
		return errors.New(applied.GetError())
	}
	return nil
}

func (c *client) exchange(diff *Diff) (*contractv1.ProxyApplied, error) {
	if err := c.stream.Send(&contractv1.ProxyApply{Name: c.name, Diff: diff}); err != nil {
		return nil, err
	}
	return c.stream.Recv()
}

// statusTimeout bounds how long a plugin may think about its status.
const statusTimeout = 5 * time.Second

func (c *client) Status() Status {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	s, err := c.proxies.Status(ctx, &contractv1.ProxyStatusRequest{Name: c.name})
	if err != nil {
		return Status{Message: err.Error()}
	}
	return Status{
		Ready: s.GetReady(), Message: s.GetMessage(), Generation: s.GetGeneration(),
		Services: int(s.GetServices()), Endpoints: int(s.GetEndpoints()), Serves: s.GetServes(),
	}
}

func (c *client) Stop(ctx context.Context, cleanup bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		c.cancel()
		c.stream, c.cancel = nil, nil
	}
	_, err := c.proxies.Stop(ctx, &contractv1.ProxyStop{Name: c.name, Cleanup: cleanup})
	return err
}
