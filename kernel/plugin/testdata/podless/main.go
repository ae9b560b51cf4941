// The bundle of the package's tests that looks at no pod on a node, and says which it
// sees all the same.
package main

import (
	"fmt"

	"pintle.dev/pintle/sdk"
)

func init() {
	sdk.Register(sdk.Predicate{Name: "Unoccupied", Scope: sdk.ScopeNodeObject, Filter: func(r *sdk.Request) sdk.Verdict {
		switch {
		case len(r.Node.Pods) > 0:
			return sdk.Unfit(fmt.Sprintf("node(s) showed %d pods", len(r.Node.Pods)))
		case r.Node.Labels["color"] == "red":
			return sdk.Unfit("node(s) were red")
		}
		return sdk.Fits()
	}})
	sdk.Register(sdk.Reserve{Name: "Seat", Scope: sdk.ScopeNodeObject, Reserve: func(p *sdk.Placement) sdk.Status {
		if p.Node == nil || len(p.Node.Pods) > 0 {
			return sdk.Refuse("no node, or one that shows pods")
		}
		return sdk.Refuse("asked about " + p.Pod.Name + " on " + p.Node.Name + " with color " + p.Node.Labels["color"])
	}})
	sdk.Register(sdk.PostBind{Name: "Tell", PostBind: func(*sdk.Binding) {}})
}

func main() { sdk.Serve() }
