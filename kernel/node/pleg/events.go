package pleg

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Events reads the runtime's event stream, of one node or of many in one process, and tells each node which of its
// pods changed.
type Events struct {
	client runtimeapi.RuntimeServiceClient
	logger *slog.Logger

	streaming atomic.Bool

	// wall reads the time of day of a moment, in nanoseconds. heard and wallHeard are when the last event came. All are
	// Run's.
	wall      func(time.Time) int64
	heard     time.Time
	wallHeard int64

	mu    sync.Mutex
	nodes map[string]Listener
}

// Listener hears of the events of one node; its functions must not block.
type Listener struct {
	// Changed is called with a pod that changed, and when. That time has a monotonic part, so that it can be compared
	// with others of this process although the machine's clock was set meanwhile.
	Changed func(uid types.UID, at time.Time)
	// Missed is called when a stream began anew: of what was meanwhile nothing is known.
	Missed func()
}

// NewEvents reads by a client: of a node, or of all nodes (cri.AllNodes), when the runtime says in each event whose it
// is. Run it.
func NewEvents(client runtimeapi.RuntimeServiceClient, logger *slog.Logger) *Events {
	now := time.Now()
	return &Events{client: client, logger: logger, nodes: map[string]Listener{}, wall: time.Time.UnixNano, heard: now, wallHeard: now.UnixNano()}
}

// Subscribe has a node told of its events until cancel is called. An event that names no node is for the node "".
func (e *Events) Subscribe(node string, l Listener) (cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[node] = l
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.nodes, node)
	}
}

// Streaming tells that a stream is open.
func (e *Events) Streaming() bool { return e.streaming.Load() }

// Run reads the stream until ctx ends, again and again while the runtime has one.
func (e *Events) Run(ctx context.Context) {
	const fastest, slowest = time.Second, 30 * time.Second
	wait := fastest
	for again := false; ctx.Err() == nil; again = true {
		err := e.stream(ctx, again)
		if e.streaming.Swap(false) {
			wait = fastest
		}
		if status.Code(err) == codes.Unimplemented {
			e.logger.Info("the container runtime has no event stream; it is listed instead")
			return
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
		wait = min(2*wait, slowest)
	}
}

func (e *Events) stream(ctx context.Context, again bool) error {
	events, err := e.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	e.streaming.Store(true)
	if again {
		for _, l := range e.listeners() {
			l.Missed()
		}
	}
	for {
		ev, err := events.Recv()
		if err != nil {
			return err
		}
		e.tell(ev)
	}
}

func (e *Events) listeners() []Listener {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Listener, 0, len(e.nodes))
	for _, l := range e.nodes {
		out = append(out, l)
	}
	return out
}

const (
	// lateness is how late an event comes at most: what seems older has a date that is not by this machine's clock.
	lateness = time.Minute
	// setBy is by how much the time of day and the monotonic clock may differ between two events. They run at the same
	// rate, so more tells that the time of day was set.
	setBy = time.Millisecond
)

// moment is when an event happened that the runtime dated by the time of day, and that came now. It is now where the date
// says nothing: too late a moment costs a round of work, too early a one loses the event.
func (e *Events) moment(created int64) time.Time {
	now := time.Now()
	wall := e.wall(now)
	set := time.Duration(wall-e.wallHeard) - now.Sub(e.heard)
	e.heard, e.wallHeard = now, wall
	age := time.Duration(wall - created)
	if created <= 0 || age < 0 || age > lateness || set.Abs() > setBy {
		return now
	}
	return now.Add(-age)
}

func (e *Events) tell(ev *runtimeapi.ContainerEventResponse) {
	at := e.moment(ev.CreatedAt)
	var uid types.UID
	if ev.PodSandboxStatus != nil && ev.PodSandboxStatus.Metadata != nil {
		uid = types.UID(ev.PodSandboxStatus.Metadata.Uid)
	} else {
		for _, c := range ev.ContainersStatuses {
			if uid = types.UID(c.Labels[cri.LabelPodUID]); uid != "" {
				break
			}
		}
	}
	if uid == "" {
		return
	}
	e.mu.Lock()
	l, ok := e.nodes[ev.GetPodSandboxStatus().GetAnnotations()[cri.NodeMetadata]]
	e.mu.Unlock()
	if !ok {
		return
	}
	l.Changed(uid, at)
}
