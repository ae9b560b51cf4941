package artifact

import (
	"context"
	"errors"
	"io"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ErrRefused marks an answer that says no, such as for a plugin or a class
// that is not there. Other errors mean that the artefact did not answer as the
// contract says, and is no longer of use.
var ErrRefused = errors.New("refused")

// ErrNoAnswer marks a call that did not end in its time. What it was asked of is no
// longer of use, and the next of its kind would most likely hang as well.
var ErrNoAnswer = errors.New("no answer")

// Artifact is an opened build of a bundle. Plugins are named by their position
// in Plugins. One goroutine at a time may use it.
type Artifact interface {
	// Plugins is what the bundle describes of itself.
	Plugins() []*contractv1.PluginDescription
	Configure(ctx context.Context, plugin int, config []byte) error
	// Apply brings the replica up to date.
	Apply(ctx context.Context, delta *contractv1.Delta) error
	// ApplyEncoded is Apply of bytes, which need not be a delta.
	ApplyEncoded(ctx context.Context, delta []byte) error
	// Filter returns the reasons a node, nil where the class fits.
	Filter(ctx context.Context, plugin int, class uint32, nodes []uint32) ([][]string, error)
	// Score returns the raw score a node.
	Score(ctx context.Context, plugin int, class uint32, nodes []uint32) ([]int64, error)
	// Normalize returns the normalized scores.
	Normalize(ctx context.Context, plugin int, class uint32, nodes []uint32, scores []int64) ([]int64, error)
	// Cycle asks about the points of the cycle that are not asked a node. The
	// replica is what Apply left: generation and deltas of the request are not for it.
	Cycle(ctx context.Context, request *contractv1.CycleRequest) (*contractv1.CycleResponse, error)
	// Review asks an admission plugin: an AdmissionRequest of admission.k8s.io/v1
	// as JSON, answered by an AdmissionResponse.
	Review(ctx context.Context, plugin int, request []byte) ([]byte, error)
	// MemoryBytes is what it holds at present; 0 where that is not known.
	MemoryBytes() int64
	// Close ends it; an error says that it did not end as it was asked to.
	Close(ctx context.Context) error
}

// Reconciler is an Artifact whose controllers can be asked without a cluster: a
// module, whose host functions Options.Host answers.
type Reconciler interface {
	// Reconcile asks about a key as JSON (ABI.md); ErrRefused says that it would
	// be asked again.
	Reconcile(ctx context.Context, plugin int, key []byte) error
}

// Options of an artefact.
type Options struct {
	// CallTimeout bounds a call; 0 is 10 s, since this is no test of speed. A start,
	// and taking a configuration, may last three times that.
	CallTimeout time.Duration
	// MemoryLimit bounds a module's memory in bytes; 0 is 256 MiB.
	MemoryLimit int64
	// Host answers what a module's controllers ask of the API: a host function and
	// its request, with an answer as in ABI.md. Instances may call it side by side.
	// nil: each is answered that there is no cluster.
	Host func(function string, request []byte) []byte
	// Output receives what the plugin prints; nil drops it.
	Output io.Writer
}

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = 256 << 20
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	return o
}

// long bounds a start and a configuration.
func (o Options) long() time.Duration { return 3 * o.CallTimeout }

// Bounds of what an artefact may answer (ABI.md).
const (
	maxDescription = 1 << 20
	maxText        = 64 << 10
	maxVerdict     = 1 << 16
)
