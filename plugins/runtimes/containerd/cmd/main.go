// Containerd is the bundle of the runtime of that name.
package main

import (
	"pintle.dev/pintle/plugins/runtimes/containerd"
	"pintle.dev/pintle/sdk/runtime"
)

func main() {
	runtime.Serve(map[string]runtime.Runtime{"containerd": containerd.New()})
}
