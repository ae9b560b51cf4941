// A bundle as somebody wrote it when there was contract 1 only.
package main

import "pintle.dev/pintle/sdk"

func init() {
	sdk.Register(sdk.Predicate{Name: "Quiet", Filter: func(r *sdk.Request) sdk.Verdict {
		if r.Node.Labels["disk"] == "" && r.Pod.NodeSelector["disk"] != "" {
			return sdk.Unfit("node(s) were quiet")
		}
		return sdk.Fits()
	}})
	sdk.Register(sdk.Priority{Name: "Index", Normalize: sdk.NormalizeMax, Score: func(r *sdk.Request) int64 { return int64(r.Node.Index) }})
}

func main() { sdk.Serve() }
