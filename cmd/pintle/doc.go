// Pintle is the one binary: it runs a kernel (serve), checks and shows its
// configuration (config), manages plugins (plugin), looks after the store
// (store), and holds an unmodified kubectl (kubectl).
//
// It wires packages together and holds no logic of its own. It may import
// kernel and sdk, never plugins.
package main
