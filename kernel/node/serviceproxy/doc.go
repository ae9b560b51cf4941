// Package serviceproxy feeds a proxy plugin: it watches services and endpoint
// slices, folds what changed into one diff, and hands it to the proxy that the
// machine can run.
//
// # What it promises
//
// Diffs go to the proxy in order, one at a time; the first after each start
// holds everything. While a diff is applied, further changes gather and go
// together in the next. A proxy that fails or restarts is started and fed anew
// with back-off, and the data path that it programmed before carries on.
//
// # How data passes through
//
// Informers (through an ordinary client) → dirty set of service names →
// convert.go → proxy.Diff → sdk/proxy client → plugin.
//
// It may import sdk, never another package of the kernel.
package serviceproxy
