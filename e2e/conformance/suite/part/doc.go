// Package part is a test program of Kubernetes with fewer packages than e2e.test, for
// the part of the conformance suite that make test runs: compiling all of them takes
// three times the processor time. It has the same flags. What e2e.test does before its
// tests, waiting for nodes and pods of the system, is left out: e2e/conformance starts
// its cluster and knows that it is ready.
package part
