// Versioned is a predicate that refuses every pod labelled picky, and says in
// which version it does; the version is set when it is linked.
package main

import "pintle.dev/pintle/sdk"

var version = "0.0.0"

func init() {
	sdk.Register(sdk.Predicate{Name: "Picky", Filter: func(r *sdk.Request) sdk.Verdict {
		if r.Pod.Labels["picky"] == "" {
			return sdk.Fits()
		}
		return sdk.Unfit("node(s) were refused by version " + version)
	}})
}

func main() { sdk.Serve() }
