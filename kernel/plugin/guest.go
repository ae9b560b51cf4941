package plugin

import (
	"context"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
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
