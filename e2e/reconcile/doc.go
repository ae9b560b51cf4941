// Package reconcile compares the controllers of Pintle with kube-controller-manager.
//
// # What it owns
//
// Scripts of creations, changes and failures (testdata/scripts), what the objects and
// events were after each step beside kube-apiserver and kube-controller-manager
// (testdata/recorded), and the list of known differences
// (testdata/differences.yaml), each with its reason.
//
// # How data passes through
//
// A script is a list of steps (script_test.go). A world (world_test.go) follows all
// objects of a control plane and gives each script those of its namespace. No scheduler
// and no node agent runs: a script binds pods and writes their status, as an agent would
// (agent_test.go). After each step the objects are rendered without what differs between
// two runs (render_test.go, names_test.go): times, identifiers and random suffixes.
//
// TestControllers plays the scripts against Pintle's controllers, all on one cluster, and
// waits until the objects are as recorded. It runs with make test; make test-controllers
// runs it alone. TestUpstream, with -upstream=write, plays them against
// bin/kube-controller-manager and records; with -upstream=check it compares
// (make controller-goldens, make test-peer). TestUpstreamSelectors does the same for the
// short names and field selectors that kernel/api is compared with.
//
// It must not import the kernel, nor k8s.io/kubernetes.
package reconcile
