package runtime

import (
	"context"
	"log/slog"

	"pintle.dev/pintle/sdk/network"
)

// Runtime is the life-cycle of a CRI endpoint. Methods are called one at a time.
type Runtime interface {
	// Start makes the endpoint ready and returns it; it is called again when
	// the plugin process was restarted, and finds what still runs.
	Start(ctx context.Context, options Options) (Endpoint, error)
	// Status returns nil while the endpoint takes calls. Generation of the
	// returned state grows each time the endpoint was started anew.
	Status(ctx context.Context) (generation uint64, err error)
	// Stop ends the endpoint. With keepContainers containers go on running;
	// without, they and every mount, interface and rule of theirs are removed.
	Stop(ctx context.Context, keepContainers bool) error
}

// Options is what Start may know. Directories are absolute and exist.
type Options struct {
	Name              string
	Config            []byte // JSON; empty means defaults
	DataDirectory     string // outlives restarts and reboots
	StateDirectory    string // gone after a reboot; short enough for sockets
	ArtifactDirectory string // the bundle's folder: bundled binaries lie here
	NodeName          string
	PodCIDR           string   // a range, or one of each IP family with a comma between them, as CRI has it
	ClusterCIDRs      []string // in which the pods of all nodes are; empty: PodCIDR alone
	CgroupParent      string
	Pods              network.Pods // how pods' interfaces are made
	Logger            *slog.Logger // set by the server
}

// Endpoint is where CRI calls go.
type Endpoint struct {
	Socket      string // absolute path of the RuntimeService's unix socket
	ImageSocket string // of the ImageService; empty: the same
	Version     string // for people
	Message     string // what was started or found, for people
}
