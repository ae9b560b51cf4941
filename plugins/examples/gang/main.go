package main

import "pintle.dev/pintle/sdk"

// A WASM module has no main that runs, so registration is init's one work.
func init() {
	sdk.RegisterNew(newSort)
	sdk.RegisterNew(newPermit)
}

func main() { sdk.Serve() }
