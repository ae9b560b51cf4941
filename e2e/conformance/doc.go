// Conformance runs Kubernetes' certified-conformance tests against
// configs/standalone.yaml with real containers, in a network of its own. Tests that
// want two nodes have two kernels on one etcd, in networks that are joined.
//
// It owns the images of the tests, which are built here from Go modules and Debian
// packages because no registry is asked (images.go, rootfs.go); the runs of ginkgo
// (suite.go); and the account of what passed (report.go). passing.txt names the tests
// that have to pass: one that falls out fails the run. With -all it runs tests beyond
// conformance too, and with -dual the cluster has both IP families: -all -dual -focus IPv6DualStack.
// sig-apps.txt has those of sig-apps: each that has to pass, and each that
// does not with its reason. Of the latter make conformance-apps leaves out those that wait
// long for images which cannot be made here. The nested module suite pins what is built of
// Kubernetes; make builds it into bin/conformance.
//
// TestPart runs a part of them with make test: the 87 of sig-storage, sig-auth and
// sig-instrumentation that need nothing but agnhost and busybox, with a smaller program
// (suite/part). Compiling it from an empty build cache takes 2 minutes on two
// processors, of which half is shared with other tests; the tests take 1 minute.
//
// Data passes through as: images → a cluster (e2e/cluster) → ginkgo's reports, one
// a stage → results.json, failures.txt and junit-STAGE.xml in the output folder. It must
// not import the kernel.
package main
