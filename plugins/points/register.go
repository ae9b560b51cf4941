package main

import (
	"pintle.dev/pintle/plugins/preenqueues/schedulinggates"
	"pintle.dev/pintle/plugins/queuesorts/prioritysort"
	"pintle.dev/pintle/sdk"
)

// A WASM module has no main that runs, so registration is init's one work.
func init() {
	sdk.RegisterNew(schedulinggates.New)
	sdk.RegisterNew(prioritysort.New)
}
