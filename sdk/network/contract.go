package network

import (
	"context"
	"log/slog"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// The contract's messages under the names that authors read.
type (
	Diff    = contractv1.NetworkDiff
	Node    = contractv1.NetworkNode
	Refusal = contractv1.NetworkRefusal
)

// Network connects pods of several machines. Start, Apply and Stop are called one at a
// time; Status at any time.
type Network interface {
	// Probe returns nil where the network could run, else why not (no root, no kernel
	// feature). It changes nothing on the machine.
	Probe(ctx context.Context, config []byte) error
	// Start prepares the machine and says how pods' interfaces are made. An error keeps the
	// node from starting: a range that collides with the machine's own networks is one.
	Start(ctx context.Context, options Options) (Pods, error)
	// Apply returns when pods reach the nodes of the diff's generation, but for those that
	// Status says are refused. After an error all nodes are handed over anew.
	Apply(ctx context.Context, diff *Diff) error
	Status() Status
	// Stop ends the network; with cleanup it removes everything that it made, without it
	// pods go on reaching each other. A stop with cleanup of a network that is not started
	// removes what an earlier run left: the node uses another network now, or none. Pods may
	// still run then, so it leaves settings of the machine that these need.
	Stop(ctx context.Context, cleanup bool) error
}

// Options is what Start may know.
type Options struct {
	Name           string
	Config         []byte // JSON; empty means defaults
	NodeName       string
	NodeIPs        []string
	PodCIDRs       []string // of this node
	ClusterCIDRs   []string // those of all nodes lie in these
	ServiceCIDRs   []string
	StateDirectory string       // exists, and outlives restarts
	APISocket      string       // by which the plugin is known to the API; set by the host where its manifest has rules
	Logger         *slog.Logger // set by the server
}

// Pods is how a runtime makes the interfaces of pods.
type Pods struct {
	MTU int // in bytes; 0: as the runtime does by itself
	// CNIConfigurations is the folder of the CNI configurations that the runtime uses, in
	// the place of its own; empty: its own.
	CNIConfigurations string
	// CNIPlugins is a folder of CNI plugins beside the runtime's; empty: none.
	CNIPlugins string
	// PublicKey is what other nodes are handed of this one (Node.PublicKey), such as a key by which
	// they encrypt to it, of 128 bytes at most; empty: there is none. It is no secret.
	PublicKey string
}

// Status is what a network says of itself.
type Status struct {
	Ready      bool
	Message    string // why not ready, or what there is
	Generation uint64 // the last one that is in force
	Refused    []*Refusal
}
