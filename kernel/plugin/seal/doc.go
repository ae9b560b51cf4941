// Package seal pins the artefacts of a bundle by their digests, as a part of its build and
// never of a start: Seal writes what a bundle's folder has beside the manifest (or into it,
// where it names digests), and refuses a module that cannot run or reviews more than the
// manifest asks for. Unseal removes builds of a source that is no more.
//
// The folder is an author's: paths outside of it are refused. It starts no goroutine. It may
// import kernel/plugin/manifest, sealed and wasm; it must not import kernel/plugin.
package seal
