package plugintest_test

import (
	"testing"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/plugintest"
)

var roomy = sdk.Predicate{Name: "Roomy", Filter: func(r *sdk.Request) sdk.Verdict {
	if r.Pod.Requests.MilliCPU > r.Node.Allocatable.MilliCPU {
		return sdk.Unfit("Insufficient cpu")
	}
	return sdk.Fits()
}}

// A cluster of two nodes, and what a predicate says of them. t is the test's.
func ExampleCluster_WantVerdicts() {
	_ = func(t *testing.T) {
		c := plugintest.NewCluster().Node("large").Node("small", plugintest.CPU(100))
		c.WantVerdicts(t, roomy, &plugintest.Pod{}, plugintest.Verdicts{"large": plugintest.Fits, "small": plugintest.Fits})
	}
}

// The cases of a folder, the contract's suite and random clusters, against the
// source, the WASM module and the process of the package that is tested.
func ExampleEverywhere() {
	_ = func(t *testing.T) { plugintest.Everywhere(t, "cases") }
}
