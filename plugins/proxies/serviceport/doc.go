// Package serviceport flattens services and their endpoints, as the kernel
// sends them, into what a data path is programmed from: one Port for each port
// of each service that has a cluster IP, with the endpoints that traffic may
// go to by now.
//
// It must not import kernel.
package serviceport
