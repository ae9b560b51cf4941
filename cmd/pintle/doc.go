// Pintle is the one binary: it runs a kernel (serve), checks and shows its
// configuration (config), manages plugins (plugin), looks after the store
// (store), and holds an unmodified kubectl (kubectl).
//
// It parses arguments, calls the packages that do the work, and prints what they say. The
// families plugin, store and pki have packages of their own below internal/; what all commands
// share is internal/cli. It may import kernel and sdk, never plugins.
package main
