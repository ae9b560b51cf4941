package proxy

import (
	"context"
	"log/slog"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// The contract's messages under the names that authors read.
type (
	Diff             = contractv1.ProxyDiff
	Change           = contractv1.ProxyChange
	Node             = contractv1.ProxyNode
	Service          = contractv1.Service
	ServicePort      = contractv1.ServicePort
	ServiceEndpoints = contractv1.ServiceEndpoints
	PortEndpoints    = contractv1.PortEndpoints
	Endpoint         = contractv1.Endpoint
	ServiceName      = contractv1.ServiceName
	ServedPort       = contractv1.ProxyServedPort
)

// Proxy programs a data path. Start, Apply and Stop are called one at a time;
// Status at any time.
type Proxy interface {
	// Probe returns nil where the proxy could run, else why not (no root, no
	// kernel feature). It changes nothing on the machine.
	Probe(ctx context.Context, config []byte) error
	Start(ctx context.Context, options Options) error
	// Apply returns when the data path shows the diff's generation.
	Apply(ctx context.Context, diff *Diff) error
	Status() Status
	// Stop ends the proxy; with cleanup it removes everything it programmed,
	// without it leaves the data path as it is.
	Stop(ctx context.Context, cleanup bool) error
}

// Options is what Start may know.
type Options struct {
	Name           string
	Config         []byte // JSON; empty means defaults
	NodeName       string
	NodeIPs        []string // node ports are served on these
	PodCIDRs       []string // of this node
	ClusterCIDRs   []string // all pods; may be empty
	ServiceCIDRs   []string
	Zone           string // of this node at the start; diffs say when it changes
	StateDirectory string
	DataDirectory  string
	APISocket      string       // by which the plugin is known to the API; set by the host where its manifest has rules
	ClusterDomain  string       // of the cluster's DNS
	Logger         *slog.Logger // set by the server
}

// Status is what a proxy says of itself.
type Status struct {
	Ready      bool
	Message    string // why not ready
	Generation uint64 // the last one that the data path shows
	Services   int
	Endpoints  int
	// Serves is where a proxy that serves something itself, as a DNS server does,
	// takes packets; nothing while it does not.
	Serves []*ServedPort
}
