// Package sealed holds together the two files of a bundle's folder that are its
// manifest: manifest.yaml, which its author writes, and artifacts.yaml, which a build
// writes and in which the digests of the builds are. So a build never changes what is
// under version control.
//
// # What it owns
//
// File is the second file. Read joins both into the one manifest that packages, the
// catalog and locks have: its bytes are what a bundle's digest is of, so that a folder
// and what is installed from it have one digest.
//
// # What it promises
//
// A manifest that names digests itself is whole, and artifacts.yaml beside it does not
// count: nothing that is put into a folder of the catalog changes what a lock pins.
// The lines of the author's file keep their numbers. The same files give the same
// bytes.
//
// It knows YAML and not what the keys mean: kernel/plugin parses and checks what it
// reads. It must not import kernel/plugin.
package sealed
