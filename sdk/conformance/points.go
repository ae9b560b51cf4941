package conformance

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// pointsOf are the points at which a kind is asked, in order.
var pointsOf = map[string][]contractv1.Point{
	sdk.KindPreEnqueue: {contractv1.Point_PRE_ENQUEUE},
	sdk.KindQueueSort:  {contractv1.Point_QUEUE_SORT},
	sdk.KindPreFilter:  {contractv1.Point_PRE_FILTER},
	sdk.KindPostFilter: {contractv1.Point_POST_FILTER},
	sdk.KindPreScore:   {contractv1.Point_PRE_SCORE},
	sdk.KindReserve:    {contractv1.Point_RESERVE, contractv1.Point_UNRESERVE, contractv1.Point_UNRESERVE},
	sdk.KindPermit:     {contractv1.Point_PERMIT, contractv1.Point_PERMIT_REVIEW},
	sdk.KindPreBind:    {contractv1.Point_PRE_BIND},
	sdk.KindBind:       {contractv1.Point_BIND},
	sdk.KindPostBind:   {contractv1.Point_POST_BIND},
}

// repeats are points whose answer follows from the replica and the request alone.
var repeats = []contractv1.Point{contractv1.Point_PRE_ENQUEUE, contractv1.Point_QUEUE_SORT, contractv1.Point_PRE_FILTER}

// hasPoints reports whether there is a plugin of the cycle.
func (s *suite) hasPoints() bool {
	return slices.ContainsFunc(s.plugins, func(p *contractv1.PluginDescription) bool { return pointsOf[p.GetKind()] != nil })
}

// points: plugins of the cycle answer at their points, in range.
func points(ctx context.Context, s *suite, a artifact.Artifact) error {
	for k := range s.Seeds {
		w := s.world(k)
		whole := w.Whole()
		whole.Generation = uint64(k + 1)
		if err := a.Apply(ctx, whole); err != nil {
			return fmt.Errorf("seed %d: %w", s.Seed+uint64(k), err)
		}
		for _, p := range s.plugins {
			for _, point := range pointsOf[p.GetKind()] {
				request := w.request(p.GetName(), point, whole.Generation)
				response, err := a.Cycle(ctx, request)
				if err == nil {
					err = w.inRange(point, request, response)
				}
				if err == nil && slices.Contains(repeats, point) {
					var again *contractv1.CycleResponse
					if again, err = a.Cycle(ctx, request); err == nil && !sameAnswer(response, again) {
						err = fmt.Errorf("it answers the same question with %v and %v", response, again)
					}
				}
				if err != nil {
					return fmt.Errorf("seed %d: %s at %s: %w", s.Seed+uint64(k), p.GetName(), point, err)
				}
			}
		}
	}
	return nil
}

// sameAnswer compares all but the time that was taken.
func sameAnswer(a, b *contractv1.CycleResponse) bool {
	a, b = proto.Clone(a).(*contractv1.CycleResponse), proto.Clone(b).(*contractv1.CycleResponse)
	for _, r := range slices.Concat(a.GetResults(), b.GetResults()) {
		r.Nanoseconds = 0
	}
	return proto.Equal(a, b)
}

// request is what the host would send at a point.
func (w *World) request(plugin string, point contractv1.Point, generation uint64) *contractv1.CycleRequest {
	queued := func(uid string) *contractv1.QueuedPod {
		pod := proto.Clone(w.class).(*contractv1.Pod)
		pod.Name, pod.Uid = uid, uid
		return &contractv1.QueuedPod{Pod: pod, QueuedUnixNano: 1700000000000000000, CreatedUnix: 1700000000, Attempts: 1}
	}
	nodes := w.Nodes()
	node := nodes[0]
	r := &contractv1.CycleRequest{
		Generation: generation, Steps: []*contractv1.Step{{Plugin: plugin, Point: point}},
		Pods: []*contractv1.QueuedPod{queued("asked")}, Class: Class,
	}
	switch point {
	case contractv1.Point_PRE_ENQUEUE, contractv1.Point_QUEUE_SORT:
		r.Generation, r.Pods = 0, append(r.Pods, queued("second"), queued("third"))
		if point == contractv1.Point_PRE_ENQUEUE {
			r.Generation = generation
		}
	case contractv1.Point_PRE_SCORE:
		r.Nodes = nodes
	case contractv1.Point_POST_FILTER:
		r.Nodes, r.Refused = nodes, make([]uint32, len(nodes))
		r.Refusals = []*contractv1.Refusal{{Plugin: "PodFitsResources", Reasons: []string{"Insufficient cpu"}}}
	case contractv1.Point_PERMIT_REVIEW:
		r.Pods = nil
	case contractv1.Point_PRE_FILTER:
	default:
		r.Node, r.NodeName, r.HasNode = node, w.nodes[node].GetName(), true
	}
	if point == contractv1.Point_PERMIT || point == contractv1.Point_PERMIT_REVIEW {
		for _, p := range w.placed[node] {
			r.Steps[0].Waiting = append(r.Steps[0].Waiting, &contractv1.WaitingPod{Uid: p.GetUid(), Node: node, WaitingNanoseconds: 1e9})
		}
	}
	return r
}

// inRange holds an answer to the contract.
func (w *World) inRange(point contractv1.Point, request *contractv1.CycleRequest, response *contractv1.CycleResponse) error {
	if len(response.GetResults()) != 1 {
		return fmt.Errorf("%d results for one step", len(response.GetResults()))
	}
	r := response.GetResults()[0]
	if _, ok := contractv1.Code_name[int32(r.GetCode())]; !ok {
		return fmt.Errorf("code %d is none", r.GetCode())
	}
	if r.GetCode() == contractv1.Code_WAIT && point != contractv1.Point_PERMIT {
		return fmt.Errorf("only permit may let a pod wait")
	}
	if r.GetCode() == contractv1.Code_WAIT && r.GetWaitNanoseconds() <= 0 {
		return fmt.Errorf("it lets a pod wait for %d ns", r.GetWaitNanoseconds())
	}
	refused := r.GetCode() == contractv1.Code_UNSCHEDULABLE || r.GetCode() == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE || r.GetCode() == contractv1.Code_ERROR
	switch {
	case refused && len(r.GetReasons()) == 0:
		return fmt.Errorf("%s without a reason", r.GetCode())
	case refused:
		return nil
	case point == contractv1.Point_QUEUE_SORT && len(r.GetKeys()) != len(request.GetPods()):
		return fmt.Errorf("%d keys for %d pods", len(r.GetKeys()), len(request.GetPods()))
	case point == contractv1.Point_PRE_ENQUEUE && len(r.GetPods()) != len(request.GetPods()):
		return fmt.Errorf("%d answers for %d pods", len(r.GetPods()), len(request.GetPods()))
	}
	for _, n := range r.GetNodes() {
		if w.nodes[n] == nil {
			return fmt.Errorf("it names node %d, which is not there", n)
		}
	}
	waiting := func(uid string) bool {
		return slices.ContainsFunc(request.GetSteps()[0].GetWaiting(), func(p *contractv1.WaitingPod) bool { return p.GetUid() == uid })
	}
	for _, d := range r.GetDecisions() {
		if !waiting(d.GetUid()) {
			return fmt.Errorf("it decides about pod %s, which does not wait", d.GetUid())
		}
	}
	if n := r.GetNomination(); n != nil {
		for _, victim := range n.GetVictims() {
			if !slices.ContainsFunc(w.placed[n.GetNode()], func(p *contractv1.Pod) bool { return p.GetUid() == victim }) {
				return fmt.Errorf("victim %s is not on node %d", victim, n.GetNode())
			}
		}
	}
	return nil
}
