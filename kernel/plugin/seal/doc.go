// Package seal pins the artefacts of a bundle by their digests. This is a part of its build
// and never of a start. Seal writes the digests beside the manifest in the bundle's folder,
// or into the manifest if that names digests. It refuses a module that cannot run or that
// reviews more than the manifest lists. Unseal removes builds whose source no longer exists.
//
// The folder is an author's, so the package refuses paths outside of it. It starts no
// goroutine. It may import kernel/plugin/manifest, sealed and wasm; it must not import
// kernel/plugin.
package seal
