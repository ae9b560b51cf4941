// Many is one artefact for many bundles: each uses a predicate of its own.
package main

import (
	"fmt"

	"pintle.dev/pintle/sdk"
)

func init() {
	for i := range 200 {
		sdk.Register(sdk.Predicate{Name: fmt.Sprintf("Many%03d", i), Filter: func(r *sdk.Request) sdk.Verdict {
			if r.Node.Unschedulable {
				return sdk.Unfit("node(s) were unschedulable")
			}
			return sdk.Fits()
		}})
	}
}

func main() { sdk.Serve() }
