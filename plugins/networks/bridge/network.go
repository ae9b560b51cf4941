package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"pintle.dev/pintle/sdk/network"
)

// Network implements network.Network.
type Network struct {
	open func(c Config, o options) (*linux, error)

	mu      sync.Mutex
	running *run
	state   network.Status
}

var _ network.Network = (*Network)(nil)

// New returns a network that is not started.
func New() *Network { return &Network{open: openLinux} }

// options are network.Options, read.
type options struct {
	cluster
	state string // the folder
}

// run is from a start to a stop.
type run struct {
	*Network
	cfg     Config
	options options
	log     *slog.Logger
	linux   *linux
	cancel  context.CancelFunc
	done    chan struct{}

	turn  sync.Mutex // one sync at a time
	nodes network.State
	held  holders
	said  string // the last fault; the log has it once
	// unkept is why the holders are not written; the log has it once, too.
	unkept string
}

// Probe implements network.Network.
func (n *Network) Probe(_ context.Context, config []byte) error {
	if _, err := parseConfig(config); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("it makes routes, which needs root")
	}
	return nil
}

// Start implements network.Network.
func (n *Network) Start(ctx context.Context, o network.Options) (network.Pods, error) {
	if err := n.Probe(ctx, o.Config); err != nil {
		return network.Pods{}, fmt.Errorf("start network %s: %w", Name, err)
	}
	r, mtu, err := n.prepare(o)
	if err != nil {
		return network.Pods{}, fmt.Errorf("start network %s: %w", Name, err)
	}
	loop, cancel := context.WithCancel(ctx)
	r.cancel = cancel
	n.mu.Lock()
	n.running, n.state = r, network.Status{Message: "the other nodes are not known yet"}
	n.mu.Unlock()
	go r.loop(loop)
	return network.Pods{MTU: mtu, PublicKey: r.linux.publicKey()}, nil
}

// prepare checks the options and the machine, and makes what does not depend on others.
func (n *Network) prepare(o network.Options) (_ *run, mtu int, err error) {
	cfg, err := parseConfig(o.Config)
	if err != nil {
		return nil, 0, err
	}
	read, err := readOptions(o)
	if err != nil {
		return nil, 0, err
	}
	machine, err := n.open(cfg, read)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, machine.takeBack())
			machine.close()
		}
	}()
	networks, err := machine.networks()
	if err != nil {
		return nil, 0, err
	}
	if err := read.collision(networks); err != nil {
		return nil, 0, err
	}
	if mtu, err = machine.mtu(); err != nil {
		return nil, 0, err
	}
	// First what says that the machine lacks a family of its pods.
	if err := machine.forward(); err != nil {
		return nil, 0, err
	}
	if err := errors.Join(machine.encrypt(), machine.removeUnused()); err != nil {
		return nil, 0, err
	}
	held, fault := readHolders(read.state)
	if fault != nil {
		o.Logger.Warn("of two nodes that claim one range the one that registered first gets it", "error", fault)
	}
	return &run{Network: n, cfg: cfg, options: read, log: o.Logger, linux: machine, held: held, done: make(chan struct{})}, mtu, nil
}

// readOptions parses what the node said.
func readOptions(o network.Options) (out options, err error) {
	for _, list := range []struct {
		what string
		from []string
		to   *[]netip.Prefix
	}{{"range of this node's pods", o.PodCIDRs, &out.own}, {"range of the cluster's pods", o.ClusterCIDRs, &out.all}, {"range of services", o.ServiceCIDRs, &out.services}} {
		for _, text := range list.from {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return out, fmt.Errorf("%s %q: %w", list.what, text, err)
			}
			*list.to = append(*list.to, p.Masked())
		}
	}
	for _, text := range o.NodeIPs {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return out, fmt.Errorf("address of this node %q: %w", text, err)
		}
		out.node = append(out.node, a.Unmap())
	}
	if len(out.own) == 0 || len(out.all) == 0 || len(out.node) == 0 {
		return out, errors.New("the node has no address, no range of pod IPs or no range of the cluster's (node.clusterCIDRs)")
	}
	out.state = o.StateDirectory
	return out, nil
}

// Apply implements network.Network.
func (n *Network) Apply(_ context.Context, diff *network.Diff) error {
	n.mu.Lock()
	r := n.running
	n.mu.Unlock()
	if r == nil {
		return network.ErrNotStarted
	}
	r.turn.Lock()
	defer r.turn.Unlock()
	r.nodes.Apply(diff)
	return r.sync()
}

// loop puts right what others changed, until ctx ends.
func (r *run) loop(ctx context.Context) {
	defer close(r.done)
	tick := time.NewTicker(r.cfg.check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.turn.Lock()
		if r.nodes.Generation > 0 { // until then routes of an earlier start stay
			_ = r.sync() // it is in the status and in the log
		}
		r.turn.Unlock()
	}
}

// sync makes the machine what the nodes want. The caller holds turn.
func (r *run) sync() error {
	refused, reached, err := r.reach()
	status := network.Status{Ready: err == nil, Generation: r.nodes.Generation, Refused: refused}
	status.Message = fmt.Sprintf("%d of %d nodes are reached", reached, len(r.nodes.Nodes()))
	if err != nil {
		status.Message = err.Error()
	}
	r.mu.Lock()
	r.state = status
	r.mu.Unlock()
	if err != nil && r.said != err.Error() {
		r.log.Error("routes to pods of other nodes are not as they should be; it is tried again", "error", err)
	}
	r.said = ""
	if err != nil {
		r.said = err.Error()
	}
	return err
}

// reach plans and makes routes; reached is how many nodes have all of theirs.
func (r *run) reach() (refused []*network.Refusal, reached int, err error) {
	networks, err := r.linux.networks()
	if err != nil {
		return nil, 0, err
	}
	local, err := r.linux.addresses()
	if err != nil {
		return nil, 0, err
	}
	nodes := r.nodes.Nodes()
	hops, refused, held := r.options.plan(nodes, networks, local, r.held.of)
	// Written before routes change: what a node has outlives this process.
	r.keep(held)
	more, err := r.linux.reach(hops)
	refused = append(refused, more...)
	for _, node := range nodes {
		if !slices.ContainsFunc(refused, func(f *network.Refusal) bool { return f.GetNode() == node.GetName() }) {
			reached++
		}
	}
	return refused, reached, err
}

// keep writes which nodes have which ranges. The next sync tries again what cannot be written now; routes
// do not wait for it.
func (r *run) keep(held map[netip.Prefix]string) {
	now := ""
	if err := r.held.keep(held); err != nil {
		now = err.Error()
	}
	if now != "" && now != r.unkept {
		r.log.Warn("after a restart an older node may take the range of another; the write is tried again", "error", now)
	}
	r.unkept = now
}

// Status implements network.Network.
func (n *Network) Status() network.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state
}

// removeFormer removes what an earlier run left. The switch net.ipv4.ip_forward stays on: pods
// that go on need it.
func (n *Network) removeFormer() error {
	machine, err := n.open(Config{}, options{})
	if err == nil {
		err = machine.removeObjects()
		machine.close()
	}
	if err != nil {
		return fmt.Errorf("remove what an earlier run of network %s left: %w", Name, err)
	}
	return nil
}

// Stop implements network.Network.
func (n *Network) Stop(_ context.Context, cleanup bool) error {
	n.mu.Lock()
	r := n.running
	n.state = network.Status{Message: "stopped"}
	n.mu.Unlock()
	switch {
	case r == nil && cleanup:
		return n.removeFormer()
	case r == nil:
		return nil
	}
	r.cancel()
	<-r.done
	r.turn.Lock()
	defer r.turn.Unlock()
	if cleanup {
		if err := errors.Join(r.linux.remove(), r.held.remove(), removeKey(r.options.state)); err != nil {
			return fmt.Errorf("stop network %s: %w", Name, err) // another stop goes on here
		}
	}
	r.linux.close()
	n.mu.Lock()
	n.running = nil
	n.mu.Unlock()
	return nil
}
