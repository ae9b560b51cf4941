package contractv1

import "context"

// Cycler is a Policy that has plugins at other points of the cycle than its
// predicates and priorities. One without any, or whose Points are empty, costs
// the scheduler nothing there.
type Cycler interface {
	// Points are the plugins of the profile by point, in order. UNRESERVE and
	// PERMIT_REVIEW are asked of the plugins at RESERVE and PERMIT, VICTIMS, CHOOSE
	// and RANK of those at POST_FILTER, and have no entry of their own. Those at
	// QUEUEING_HINT are all plugins of the profile, of any kind, that can tell which
	// events help.
	Points() Points
	// Cycle asks the steps of c in order, those of one bundle that stand side by
	// side in one crossing, and fills in the results. The scheduling goroutine
	// alone calls it, except at PRE_BIND, BIND and POST_BIND, at which it may be
	// called from any goroutine, several at once.
	//
	// It stops behind the first step that is answered other than SUCCESS, SKIP
	// or WAIT, but never at UNRESERVE and POST_BIND. A plugin that could not be
	// asked answers ERROR, or SKIP where a failure is to be ignored.
	Cycle(ctx context.Context, c *CycleCall)
}

// Points are the plugins at each point.
type Points map[Point][]PointInfo

// PointInfo describes one plugin at a point to the scheduler.
type PointInfo struct {
	Name string
	// Scope and Reads say when an answer at PRE_ENQUEUE or PRE_FILTER may have
	// become another: scope node, when nodes themselves or objects that it
	// reads changed; scope cluster, also when pods came or went.
	Scope string
	Reads []string
	Pods  string // as of PredicateInfo; about others it is not asked
	Hearing
	// ByClass: at PRE_ENQUEUE and QUEUE_SORT, one answer does for a class.
	ByClass bool
	// Samples, Ranks: at POST_FILTER, as of PluginDescription.
	Samples, Ranks bool
	// IgnoreFailure: a call that fails is left out (manifest onFailure: ignore).
	IgnoreFailure bool
	// Last: at BIND, the host binds no pod that this plugin skips.
	Last bool
}

// CycleCall is a list of steps about one pod, or about a batch of them, with
// room for the answers. The fields are those of CycleRequest.
type CycleCall struct {
	Steps    []CycleStep
	Pods     []*QueuedPod
	Class    uint32
	Node     uint32
	NodeName string
	HasNode  bool
	Nodes    []uint32
	Refused  []uint32
	Refusals []*Refusal

	Events     []*Event
	Classes    []uint32
	Standing   *Standing
	Candidates []*Candidate
	Helpful    uint32

	// Results are parallel to Steps, up to the one where it stopped.
	Results []*StepResult
}

// CycleStep asks one plugin by its position in Points.
type CycleStep struct {
	Point   Point
	Plugin  int
	Waiting []*WaitingPod
}

// Of is where the plugins of a point are listed.
func (p Point) Of() Point {
	switch p {
	case Point_UNRESERVE:
		return Point_RESERVE
	case Point_PERMIT_REVIEW:
		return Point_PERMIT
	case Point_VICTIMS, Point_CHOOSE, Point_RANK:
		return Point_POST_FILTER
	}
	return p
}

// Beside reports whether calls at the point may run beside the scheduling
// goroutine and beside each other.
func (p Point) Beside() bool {
	return p == Point_PRE_BIND || p == Point_BIND || p == Point_POST_BIND
}

// Stops reports whether a step answered with c ends the steps behind it.
func (p Point) Stops(c Code) bool {
	switch c {
	case Code_SUCCESS, Code_SKIP, Code_WAIT:
		return false
	}
	return p != Point_UNRESERVE && p != Point_POST_BIND
}
