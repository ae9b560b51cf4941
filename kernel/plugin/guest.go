package plugin

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"

	"pintle.dev/pintle/kernel/plugin/confinement"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/controller"
)

// guest is a loaded bundle, whatever carries the calls. Index i is the
// position in what describe answered. One goroutine at a time calls it. An
// error that wraps errBroken means that the guest must be replaced.
type guest interface {
	describe() []*contractv1.PluginDescription
	configure(ctx context.Context, i int, config []byte) error
	// another makes another instance of plugin i, which goes by name, and returns
	// its index; it has its configuration from configure, which must follow.
	another(ctx context.Context, i int, name string) (int, error)
	// apply takes a delta, within timeout.
	apply(ctx context.Context, p part, timeout time.Duration) error
	filter(ctx context.Context, i int, class uint32, nodes, out []uint32) error
	score(ctx context.Context, i int, class uint32, nodes []uint32, out []int64) error
	normalize(ctx context.Context, i int, class uint32, nodes []uint32, scores []int64) error
	reasons(i int, verdict uint32) []string
	// unresolvable: a verdict says that no eviction would help.
	unresolvable(i int, verdict uint32) bool
	// cycle asks the steps of a request; the answer is not checked.
	cycle(ctx context.Context, req *contractv1.CycleRequest, timeout time.Duration) (*contractv1.CycleResponse, error)
	// health finds out whether the guest still works; it costs a round trip.
	health(ctx context.Context) error
	pid() int
	close(ctx context.Context, grace time.Duration) error
}

// What some guests can beside that. The host asks for the capability, and never what
// carries the calls.
type (
	// killer can be ended while a call waits for it, which then fails.
	killer interface{ kill(grace time.Duration) }
	// pinger can be asked whether it is well; it costs a round trip.
	pinger interface {
		ping(ctx context.Context) error
	}
	// walled says which walls it runs without.
	walled interface{ lacks() []confinement.Wall }
	// sized says how much memory it uses, and how much it may; 0: nobody knows. Nothing
	// else may run in it.
	sized interface{ usage() (used, most int64) }
	// concurrent takes questions about bindings without waiting for others.
	concurrent interface{ concurrent() }
	// carrier takes deltas together with a question at a point of the cycle.
	carrier interface {
		carry(queue []part) ([][]byte, error)
		// carried notes that the question was answered.
		carried(generation uint64)
	}
	// quick answers about one node in less time than a look at the clock takes.
	quick interface {
		// quickly reports whether it can do so now.
		quickly() bool
		filterOne(i int, class, node uint32) (verdict uint32, err error)
		scoreOne(i int, class, node uint32) (score int64, err error)
		// learnAll asks for the words behind verdicts that were not seen before.
		learnAll(i int, verdicts []uint32) error
		// slow reports whether the last call used up a slice of fuel, so that its time
		// is known; elapsed is how long it took until now.
		usedSlice() bool
		elapsed(now time.Time) time.Duration
	}
	// asserter answers questions about a class with yes or no.
	asserter interface {
		asserts(call string, i int, class uint32) (bool, error)
	}
	// reviewer reviews requests of the API; several at a time may ask.
	reviewer interface {
		review(ctx context.Context, i int, name string, request []byte, timeout time.Duration) ([]byte, error)
	}
	// controlling runs controllers.
	controlling interface {
		// runControllers makes exactly those of the list run. socket is the bundle's
		// own, for what its controllers share.
		runControllers(ctx context.Context, socket func() (string, error), node string, list []controller.Spec) error
		controllerStates(ctx context.Context) ([]controller.State, error)
	}
	// connected is reached by gRPC, for plugins that serve a node.
	connected interface{ connection() *grpc.ClientConn }
	// apiServing runs API servers.
	apiServing interface {
		startAPIServers(ctx context.Context, req *contractv1.APIServerStart) (*contractv1.APIServerStarted, error)
		// dialSocket connects to a socket in the folder of its own sockets.
		dialSocket(ctx context.Context, name string) (net.Conn, error)
	}
	// exposing has metrics of its own, of at most so many bytes; nil: none.
	exposing interface {
		exposition(ctx context.Context, most int) ([]byte, error)
	}
)

// asked are the plugins that an evaluation asks, parallel to its questions: filters first.
type asked struct {
	plugins []askedPlugin
	brief   bool // nobody looks at the clock
}

type askedPlugin struct {
	index   int // in the guest
	name    string
	expires bool // its answers end with time
}
