// Package plugintest is the test kit of predicates and priorities.
//
// Cluster builds a replica in a few lines, and asks one plugin in the test's
// own process:
//
//	c := plugintest.NewCluster().Node("a", plugintest.CPU(2000)).Node("b", plugintest.CPU(100))
//	c.WantVerdicts(t, predicate, &plugintest.Pod{Requests: …}, plugintest.Verdicts{"a": plugintest.Fits, "b": "Insufficient cpu"})
//
// Everywhere runs an author's cases (files, sdk/conformance), the contract's own
// suite and random clusters against the source, the WASM module and the process
// of the package that is tested, and requires one answer of all three:
//
//	func TestEverywhere(t *testing.T) { plugintest.Everywhere(t, "cases") }
//
// RunCases asks every plugin of a bundle every question of a list of cases
// through any Answerer and requires the answers of the test's own process. The
// WASM and the process build of a bundle are Answerers through the kernel's
// plugin host.
//
// It may be imported by tests only, and registers one flag, -pintle.update.
package plugintest
