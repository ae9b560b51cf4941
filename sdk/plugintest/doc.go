// Package plugintest is the test kit of predicates and priorities.
//
// Cluster builds a replica in a few lines; Filter and Score ask one plugin in
// the test's own process:
//
//	c := plugintest.NewCluster().Node("a", plugintest.CPU(2000)).Node("b", plugintest.CPU(100))
//	got := c.Filter(t, predicate, &contractv1.Pod{Requests: &contractv1.Resources{MilliCpu: 500}})
//	// got["b"] is ["Insufficient cpu"]
//
// RunCases asks every plugin of a bundle every question of a list of cases
// through any Answerer and requires the answers of the test's own process. The
// WASM and the process build of a bundle are Answerers through the kernel's
// plugin host.
//
// It may be imported by tests only.
package plugintest
