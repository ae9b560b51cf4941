// Package catalog installs plugin bundles from outside and keeps them: a
// content-addressed folder of them, the lock file that pins them, and the
// signatures by which they are trusted.
//
// # What it owns
//
// A Catalog is a folder (plugins.catalog):
//
//	sha256/HEX/            one bundle; HEX is the digest of its manifest.yaml
//	  manifest.yaml        pins every artefact by its digest
//	  ...                  the artefacts, read-only
//	origins/HEX.json       where it came from: the OCI manifest and signatures
//
// A Lock is a file (plugins.lock beside the configuration) that says which
// bundle of the catalog counts for a name, by digest, and which counted before.
//
// # What it promises
//
// A bundle appears whole or not at all (staged beside, synced, renamed), and is
// never changed: another build is another folder. Nothing of a package is
// believed before its digest was compared, nothing of it is run to install it,
// and machine code comes from no package. What a package may be is bounded:
// bytes, entries, ratio of compression, length of paths; only regular files and
// folders are in it, below its root, each once, in any case of letters.
// Nothing is fetched at a start: Find answers from the folder, compares the
// digest of the manifest with the lock and the signature with the keys, each
// time it is asked. The artefacts are compared by who loads them.
//
// # Signatures
//
// They are cosign's with a key pair, verified without a network. What is signed
// is the digest of an OCI manifest, whose annotation or layer names the digest
// of manifest.yaml, which names those of the artefacts. A package in a file has
// the OCI manifest that pushing it would make, so that one signature serves
// both. Beside simple signing (tag sha256-HEX.sig) the sigstore bundle that
// cosign 3 attaches as a referrer is read.
//
// # Caveats
//
// Machine code of modules is not kept here but in the kernel's own cache
// (kernel/plugin/modulecache). Policies speak of what is installed; a bundle in
// plugins.directories was put there by the operator and has no signature.
//
// It imports kernel/plugin/manifest and kernel/plugin/wasm, which compiles. The plugin host,
// kernel/plugin, knows it only as its interface Bundles; it must not import kernel/plugin,
// kernel/api, kernel/store or kernel/config.
package catalog
