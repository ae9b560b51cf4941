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
// It imports nothing of the kernel, its tests aside, and must not be imported.
package main
