// Package e2e tests Pintle from outside: the built binaries, a real kubectl,
// real containers and real packets, and the rules of the house (who may import
// whom, what a package must say of itself).
//
// Tests that start a cluster use the binaries in bin/, which `make build`
// writes. Those that need root or a feature of the kernel skip with the reason.
// Everything runs on loopback, in folders of its own, and is cleaned up.
//
// It imports no package of kernel: what it knows of Pintle is its command line,
// its files and its API.
package e2e
