package main

import "pintle.dev/pintle/sdk/runtime"

func main() {
	runtime.Serve(map[string]runtime.Runtime{"hollow": &lifeCycle{}})
}
