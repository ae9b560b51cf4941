// Command stalls has a plugin at each point of the scheduling cycle, which never
// answers about a pod whose label "stall" is the point: as a module it loops, as a
// process it sleeps.
package main

import (
	"runtime"
	"strings"
	"time"

	"pintle.dev/pintle/sdk"
)

// asked: there was a question, so that this is no copy by which a change is tried.
var asked bool

func stall() {
	for {
		if runtime.GOOS != "wasip1" {
			time.Sleep(time.Hour)
		}
	}
}

// at is a status for a pod at a point, unless the pod stalls there.
func at(point string, pod *sdk.Pod) sdk.Status {
	if pod.Labels["stall"] == point {
		stall()
	}
	return sdk.Status{}
}

func init() {
	sdk.Register(sdk.PreEnqueue{Name: "StallsEntering", Admit: func(_ *sdk.Cluster, p *sdk.QueuedPod) sdk.Status { return at("preEnqueue", p.Pod) }})
	sdk.Register(sdk.QueueSort{Name: "StallsSorting", Key: func(p *sdk.QueuedPod) sdk.SortKey {
		at("queueSort", p.Pod)
		return sdk.SortKey{Number: -int64(p.Priority)}
	}})
	sdk.Register(sdk.PreFilter{Name: "StallsNarrowing", Narrow: func(_ *sdk.Cluster, p *sdk.Pod) ([]*sdk.Node, sdk.Status) {
		at("preFilter", p)
		return nil, sdk.Skipped()
	}})
	sdk.Register(sdk.Predicate{
		Name: "Stalls",
		Configure: func(config []byte) error {
			if asked && strings.Contains(string(config), "stall") {
				stall()
			}
			return nil
		},
		Events: []sdk.Interest{{Kind: sdk.KindNode, Actions: sdk.ActionUpdateNodeLabel, Helps: func(_ *sdk.Cluster, p *sdk.Pod, _ *sdk.Event) bool {
			at("queueingHint", p)
			return true
		}}},
		Filter: func(r *sdk.Request) sdk.Verdict {
			asked = true
			at("filter", r.Pod)
			switch r.Pod.Labels["stall"] {
			case "postFilter", "queueingHint":
				return sdk.Unfit("it is to fit nowhere")
			}
			return sdk.Fits()
		},
	})
	sdk.Register(sdk.PostFilter{Name: "StallsNominating", Nominate: func(f *sdk.Failure) (sdk.Nomination, sdk.Status) {
		at("postFilter", f.Pod.Pod)
		return sdk.Nomination{}, sdk.Refuse("nobody may go")
	}})
	sdk.Register(sdk.PreScore{Name: "StallsLooking", Look: func(_ *sdk.Cluster, p *sdk.Pod, _ []*sdk.Node) sdk.Status { return at("preScore", p) }})
	sdk.Register(sdk.Reserve{
		Name:      "StallsReserving",
		Reserve:   func(p *sdk.Placement) sdk.Status { return at("reserve", p.Pod.Pod) },
		Unreserve: func(p *sdk.Placement) { at("unreserve", p.Pod.Pod) },
	})
	sdk.Register(sdk.Permit{
		Name: "StallsPermitting",
		Permit: func(r *sdk.PermitRequest) sdk.Status {
			switch r.Pod.Labels["stall"] {
			case "unreserve":
				return sdk.Refuse("it is to give up its node")
			case "permitReview":
				return sdk.WaitFor(time.Hour)
			}
			return at("permit", r.Pod.Pod)
		},
		Review: func(r *sdk.ReviewRequest) {
			for _, w := range r.Waiting {
				at("permitReview", w.Pod)
			}
		},
	})
	sdk.Register(sdk.PreBind{Name: "StallsBinding", PreBind: func(b *sdk.Binding) sdk.Status { return at("preBind", b.Pod.Pod) }})
}

func main() { sdk.Serve() }
