package nodepart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
	"pintle.dev/pintle/kernel/node"
	"pintle.dev/pintle/kernel/node/listener"
	"pintle.dev/pintle/kernel/node/nodestatus"
	"pintle.dev/pintle/kernel/node/oomscore"
	"pintle.dev/pintle/kernel/node/serviceproxy"
	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/kernel/revocation"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/proxy"
	"pintle.dev/pintle/sdk/runtime"
)

// Plugins are those of this machine; *plugin.Host has them.
type Plugins interface {
	Runtime(name string) (runtime.Runtime, error)
	Proxy(name string) (proxy.Proxy, error)
	Network(name string) (network.Network, error)
	// PluginConfig is the configuration in force of a plugin, or nil.
	PluginConfig(name string) []byte
}

// Config says which node this is. All but OOMScore and Listening is required.
type Config struct {
	// Name is the node's.
	Name string
	// IPs are the node's addresses, one of each IP family at most, the primary one first.
	IPs []net.IP
	// Settings is the configuration of now; each start of the node asks for it.
	Settings func() *config.Config
	// KubeletVersion is what the node says that it is.
	KubeletVersion string
	// Data outlives restarts, Pods and Logs are those of pods, Sockets does not outlive the
	// machine and is short.
	Data, Pods, Logs, Sockets string
	// Guarded are folders that no pod may see.
	Guarded []string
	// OOMScore is this process's score for the out-of-memory killer.
	OOMScore int
	// Listening are ports of this process that pods may not take.
	Listening listener.Set
}

// Deps are what a node works with; Plugins, Client, Proxy, Serving and Logger are required.
type Deps struct {
	Plugins Plugins
	// Client has the node's identity.
	Client kubernetes.Interface
	// Cluster may list nodes, and write what the node's DNS is published as. Nil: the node
	// takes the range that it is given, and its DNS answers pods of this machine alone.
	Cluster kubernetes.Interface
	// Proxy reads services and their endpoints.
	Proxy kubernetes.Interface
	// Serving is the agent's certificate, ClientCAs verify those of its clients, Revoked
	// refuses some of them; nil: none.
	Serving   *tls.Config
	ClientCAs *x509.CertPool
	Revoked   *revocation.Guard
	// Step is called with what became ready; nil: it is not called.
	Step   func(name, format string, args ...any)
	Logger *slog.Logger
}

// Part is the node. Run it once.
type Part struct {
	Config
	deps  Deps
	ready chan struct{}
	once  sync.Once
	agent atomic.Pointer[node.Agent]
	// anew: the node ends to start again with other addresses, so no pod goes on.
	anew atomic.Bool

	mu   sync.Mutex
	list *parts.Parts // of the start under way
}

// New starts nothing. The error is one of the configuration.
func New(cfg Config, deps Deps) (*Part, error) {
	if deps.Step == nil {
		deps.Step = func(string, string, ...any) {}
	}
	if n := cfg.Settings().Node; deps.Cluster == nil && n.PodCIDR != "" {
		return nil, fmt.Errorf("node.podCIDR: is %s; a node on a machine without a kernel has the range that its Node is given, so leave it empty", n.PodCIDR)
	}
	return &Part{Config: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Ready is closed when the node takes pods for the first time.
func (p *Part) Ready() <-chan struct{} { return p.ready }

// Run works until ctx ends, which is no error, or until a piece of the node fails. A node
// that is given another range of pod IPs starts anew, and one whose range another node has
// waits until that is free. Stop has to follow.
func (p *Part) Run(ctx context.Context) error {
	for {
		list := parts.New(p.deps.Logger)
		p.mu.Lock()
		p.list = list
		p.mu.Unlock()
		err := p.session(ctx, list)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, errRangeTaken):
			p.deps.Logger.Warn("the node is stopped until its range of pod IPs is free", "node", p.Name, "error", err)
			p.deps.Step("pod range", "%v", err)
		case errors.Is(err, nodestatus.ErrRangeLost):
			p.deps.Logger.Warn("the node starts anew; its pods end, and begin again in the other range", "node", p.Name, "error", err)
			p.deps.Step("node", "%s starts anew, with another range of pod IPs", p.Name)
		default:
			return err
		}
		p.anew.Store(true)
		err = list.Stop()
		p.anew.Store(false)
		if err != nil {
			return fmt.Errorf("end the pods of the former range: %w", err)
		}
		if ctx.Err() != nil {
			p.mu.Lock()
			p.list = nil // all of it has stopped
			p.mu.Unlock()
			return nil
		}
	}
}

// Stop ends the pieces in reverse, when Run has returned. What becomes of pods is the
// matter of node.onStop.
func (p *Part) Stop(context.Context) error {
	p.mu.Lock()
	list := p.list
	p.mu.Unlock()
	if list == nil {
		return nil
	}
	return list.Stop()
}

// keeps says whether pods go on when the node stops.
func (p *Part) keeps() bool {
	return p.Settings().Node.OnStop == config.KeepPods && !p.anew.Load()
}

// session starts the pieces and returns when ctx ends or one of them fails.
func (p *Part) session(ctx context.Context, list *parts.Parts) error {
	cfg, err := p.freeRange(ctx)
	if err != nil || cfg == nil {
		return err
	}
	pods, err := p.startNetwork(ctx, list, cfg)
	if err != nil {
		return err
	}
	endpoint, err := StartRuntime(ctx, list, RuntimeOptions{
		Plugins: p.deps.Plugins, Name: cfg.Node.Runtime, NodeName: p.Name, PodCIDR: cfg.Node.PodCIDR, ClusterCIDRs: cfg.Node.ClusterCIDRs, Pods: pods,
		Data: p.Data, Sockets: p.Sockets, Keep: p.keeps, Logger: p.deps.Logger,
	})
	if err != nil {
		return err
	}
	var own *serviceproxy.Own
	if cfg.Node.DNS != "" && p.deps.Cluster == nil {
		own = new(serviceproxy.Own)
	}
	agent, err := p.newAgent(cfg, endpoint, own)
	if err != nil {
		return err
	}
	if err := p.startPolicies(ctx, list, cfg); err != nil {
		return err
	}
	if len(cfg.Node.Proxies) > 0 {
		if err := p.startProxy(list, cfg, agent.Listening, own); err != nil {
			return err
		}
	}
	if cfg.Node.DNS != "" {
		if err := p.startDNS(list, cfg, own); err != nil {
			return err
		}
	}
	if err := p.startAnnouncer(list, cfg); err != nil {
		return err
	}
	p.agent.Store(agent)
	list.StartWithin("node "+p.Name, agent.Run, func(ctx context.Context) error {
		if p.keeps() {
			return nil // the next start takes the pods over
		}
		return agent.TearDown(ctx)
	}, cfg.Node.ShutdownGracePeriod+parts.StopTimeout)
	select {
	case <-agent.Ready():
	case err := <-list.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
	// Another one may have registered at the same time.
	if err := p.compareRanges(ctx, cfg); err != nil {
		return err
	}
	// What the runtime lacks stands behind how it was started.
	_, lacks, _ := strings.Cut(endpoint.Message, ";")
	if lacks != "" {
		lacks = ";" + lacks
	}
	p.deps.Step("node", "%s (%s, %s)%s", p.Name, dualstack.Join(p.IPs), endpoint.Version, lacks)
	p.once.Do(func() { close(p.ready) })
	select {
	case err := <-list.Failed():
		return err
	case <-ctx.Done():
		return nil
	}
}

// newAgent is the node agent of a start.
func (p *Part) newAgent(cfg *config.Config, endpoint runtime.Endpoint, own *serviceproxy.Own) (*node.Agent, error) {
	settings, err := p.settings(cfg)
	if err != nil {
		return nil, err
	}
	settings.NoClusterDNS = noClusterDNS(cfg, own)
	settings.CRIEndpoint, settings.PodCIDRGiven = endpoint.Socket, p.Settings().Node.PodCIDR == ""
	settings.LogDir, settings.Guarded = p.Logs, p.Guarded
	settings.LeastOOMScore = oomscore.Least(p.OOMScore)
	settings.Listening = p.Listening
	agent, err := node.New(settings, node.Deps{
		Client: p.deps.Client, Logger: p.deps.Logger.With("part", "node"),
		ServingCert: p.deps.Serving, ClientCAs: p.deps.ClientCAs, Revoked: p.deps.Revoked,
	})
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", p.Name, err)
	}
	return agent, nil
}

// Reconfigure hands the agent what changed of its live settings. Before there is one it
// does nothing: an agent takes them when it starts.
func (p *Part) Reconfigure(cfg *config.Config) error {
	agent := p.agent.Load()
	if agent == nil {
		return nil
	}
	settings, err := p.settings(cfg)
	if err != nil {
		return err
	}
	return agent.Reconfigure(settings)
}
