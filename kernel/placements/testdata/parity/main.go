// Two predicates of one bundle that let a pod onto half of the nodes: those
// whose number has the parity that this build was made with. Asked in two
// builds, they let it onto none.
package main

import (
	"strings"

	"pintle.dev/pintle/sdk"
)

var odd = "false"

func half(r *sdk.Request) sdk.Verdict {
	last := r.Node.Name[len(r.Node.Name)-1]
	if strings.IndexByte("13579", last) >= 0 != (odd == "true") {
		return sdk.Unfit("the other half")
	}
	return sdk.Fits()
}

func init() {
	sdk.Register(sdk.Predicate{Name: "FirstHalf", Filter: half})
	sdk.Register(sdk.Predicate{Name: "SecondHalf", Filter: half})
}

func main() { sdk.Serve() }
