// Package critest is a container runtime in memory that speaks CRI over gRPC, for tests of the node agent: sandboxes
// and containers are records, processes are played by the test (Exit, OnExec). It must not be imported by product code.
package critest
