// Package image brings images to the node and takes them away: pull policies, registry credentials from pull secrets,
// pull back-off, a limit of parallel pulls, and garbage collection by the thresholds of the image file system.
//
// Pulls go through the CRI image service; credentials are passed with the call and never stored. It must import only
// kernel/node/container and kernel/node/cri of its siblings.
package image
