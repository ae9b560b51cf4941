// Command bench measures what a user feels of Pintle: how fast it starts, what
// it weighs, how fast it takes, places and runs pods. It is a black box over
// the built binary and the Kubernetes API, with an ordinary client-go.
//
// # What it promises
//
// The outcome is asserted before a figure is printed: every acknowledged
// create is there (also after a kill -9), every pod is bound exactly once to a
// node that exists, every container runs. A failed assertion is an error; a
// missed goal is not, it is marked in the table. Each benchmark is bounded in
// time and count, uses loopback or a network namespace of its own, and leaves
// nothing behind.
//
// The table goes to the terminal, the same figures as JSON to
// build/bench/NAME.json. Figures depend on the machine and on what else runs
// there: processors and load stand beside each.
//
// The benchmark store is the other kind: it runs when it is named, compares with
// etcd and kube-apiserver in the same run and on the same disk, in turns, and
// gives medians. Its goals are ratios where the other side is in them. Bare
// stores are driven by the test binary of this package in a process of its own
// (storedrive_test.go), since Pintle's is a library; a chart is in
// build/bench/store.svg.
//
// So runs the benchmark plugin, of what plugins cost: questions through the
// kernel's plugin host (plugindrive_test.go), upgrades under its scheduler
// (kernel/placements), the way from the command to a decision with the built
// program. It gives medians; a chart is in build/bench/plugin.svg.
//
// The benchmark peer does the same work with Pintle and with etcd,
// kube-apiserver and kube-scheduler, all built from their modules: row by row,
// first the one and then the other, each on an empty store of its own and with
// nothing of the other running (contender.go). Upstream has its default plugins,
// a client of 5,000 requests a second, protobuf, no audit, no priority and
// fairness, and limits out of reach; Pintle has its default store (with sync) and
// all policy in WASM, that of configs/standalone.yaml (a process beside it writes
// volumes for pods that claim some, which none of these do).
// Nodes are objects that nobody agents, on both sides. The shapes are those of
// kube-scheduler's scheduler_perf (peershape.go). The load is one process of
// client-go with protobuf on the same processors, with one watch, of bound pods
// alone, and 128 workers, on both sides: each waits for the sync of its create, and 32 of
// them left a sixth of the processors idle beside Pintle; pods are encoded before the clock starts, what creates answer is not
// decoded, and what the watch brings is when the clock has stopped. Scheduling alone means that the scheduler is started when all pods are
// there, which for Pintle is a start of the kernel, and that it counts from the first
// binding. A row that Pintle has no plugin for is skipped, and says so. Beside
// each stands the floor that kube-scheduler's own CI has for that configuration
// in the same version, without etcd's or the network's part and on other machines.
//
// The benchmark scale grows one kernel to 50,000 such nodes and 100,000 pods. At
// each size as many pods come in twenty shapes that the scheduler has not seen, as
// of Deployments that are rolled out, so that the first look at every node counts;
// what is missing to 100,000 comes at the last size. It says what of the processors
// the clients took, and is written as far as it came when it is interrupted; a chart
// of the time a pod is in build/bench/scale.svg.
//
// The controllers are measured by a command of their own, e2e/bench/controllers. What both
// share is e2e/bench/rig.
//
// It imports nothing of the kernel, its tests aside, and must not be imported.
package main
