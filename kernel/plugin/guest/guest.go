package guest

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"

	"pintle.dev/pintle/kernel/plugin/confinement"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
)

// Guest is a loaded bundle, whatever carries the calls. Index i is the
// position in what describe answered. One goroutine at a time calls it. An
// error that wraps ErrBroken means that the guest must be replaced.
type Guest interface {
	Describe() []*contractv1.PluginDescription
	Configure(ctx context.Context, i int, config []byte) error
	// Another makes another instance of plugin i, which goes by name, and returns
	// its index; it has its configuration from configure, which must follow.
	Another(ctx context.Context, i int, name string) (int, error)
	// Apply takes a delta, within timeout.
	Apply(ctx context.Context, p Part, timeout time.Duration) error
	Filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error
	Score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error
	Normalize(ctx context.Context, i int, class uint32, nodes []uint32, scores []int64) error
	Reasons(i int, verdict uint32) []string
	// unresolvable: a verdict says that no eviction would help.
	Unresolvable(i int, verdict uint32) bool
	// Cycle asks the steps of a request; the answer is not checked.
	Cycle(ctx context.Context, req *contractv1.CycleRequest, timeout time.Duration) (*contractv1.CycleResponse, error)
	// Health finds out whether the guest still works; it costs a round trip.
	Health(ctx context.Context) error
	PID() int
	Close(ctx context.Context, grace time.Duration) error
}

// What some guests can beside that. The host asks for the capability, and never what
// carries the calls.
type (
	// Killer can be ended while a call waits for it, which then fails.
	Killer interface{ Kill(grace time.Duration) }
	// Pinger can be asked whether it is well; it costs a round trip.
	Pinger interface {
		Ping(ctx context.Context) error
	}
	// Walled says which walls it runs without.
	Walled interface{ Lacks() []confinement.Wall }
	// Sized reports the memory that it uses and its limit, in bytes; 0 means unknown. No
	// call may run at the same time.
	Sized interface{ Usage() (used, most int64) }
	// Concurrent takes questions about bindings without waiting for others.
	Concurrent interface{ Concurrent() }
	// Carrier takes deltas together with a question at a point of the cycle.
	Carrier interface {
		Carry(queue []Part) ([][]byte, error)
		// Carried notes that the question was answered.
		Carried(generation uint64)
	}
	// Quick answers about one node in less time than a look at the clock takes.
	Quick interface {
		// Quickly reports whether it can do so now.
		Quickly() bool
		FilterOne(i int, class, node uint32) (verdict uint32, err error)
		ScoreOne(i int, class, node uint32) (score int64, err error)
		// LearnAll asks for the words behind verdicts that were not seen before.
		LearnAll(i int, verdicts []uint32) error
		// UsedSlice reports whether the last call used up a slice of fuel, so that its time
		// is known; Elapsed is how long it took until now.
		UsedSlice() bool
		Elapsed(now time.Time) time.Duration
	}
	// Asserter answers questions about a class with yes or no.
	Asserter interface {
		Asserts(call string, i int, class uint32) (bool, error)
	}
	// Reviewer reviews requests of the API; several at a time may ask.
	Reviewer interface {
		Review(ctx context.Context, i int, name string, request []byte, timeout time.Duration) ([]byte, error)
	}
	// Controlling runs controllers.
	Controlling interface {
		// RunControllers makes exactly those of the list run. socket is the bundle's
		// own, for what its controllers share.
		RunControllers(ctx context.Context, socket func() (string, error), node string, list []controller.Spec) error
		ControllerStates(ctx context.Context) ([]controller.State, error)
	}
	// Connected is reached by gRPC, for plugins that serve a node.
	Connected interface{ Connection() *grpc.ClientConn }
	// APIServing runs API servers.
	APIServing interface {
		StartAPIServers(ctx context.Context, req *contractv1.APIServerStart) (*contractv1.APIServerStarted, error)
		// DialSocket connects to a socket in the folder of its own sockets.
		DialSocket(ctx context.Context, name string) (net.Conn, error)
	}
	// Exposing has metrics of its own, of at most so many bytes; nil: none.
	Exposing interface {
		Exposition(ctx context.Context, most int) ([]byte, error)
	}
)

// Asked are the plugins that an evaluation asks, parallel to its questions: filters first.
type Asked struct {
	Plugins []AskedPlugin
	Brief   bool // short calls are not timed
}

type AskedPlugin struct {
	Index   int // in the guest
	Name    string
	Expires bool // its answers end with time
}
