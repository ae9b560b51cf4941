// Gatewayconformance runs Gateway API's own conformance suite against configs/standalone.yaml
// with the plugins ingress and gateway, in a network of its own.
//
// It owns the image that the suite's backends have, which is built here from the suite's Go
// module because no registry is asked (image.go); the cluster and the run (main.go); and the
// features that are claimed, with what is left out and why (claims.go). A test that fails fails
// the run. The nested module suite pins the suite; make builds it into bin/gatewayconformance.
//
// Data passes through as: image → a cluster (e2e/cluster) → the suite's report, report.yaml in
// the output folder. It must not import the kernel.
package main
