// Package sealed joins the two files in a bundle's folder that form its manifest. The author
// writes manifest.yaml. A build writes artifacts.yaml, with the digests of the builds. So a
// build never changes a file under version control.
//
// # What it owns
//
// File is the second file. Read joins both into the one manifest that packages, the
// catalog and locks have. A bundle's digest covers the bytes of this manifest, so a folder
// and its installed copy have the same digest.
//
// # What it promises
//
// A manifest that itself names digests is complete. Then artifacts.yaml beside it does not
// count: a file that is added to a folder of the catalog cannot change what a lock pins.
// The lines of the author's file keep their numbers. The same files give the same
// bytes.
//
// The package knows YAML but not the meaning of the keys: kernel/plugin parses and checks
// them. It must not import kernel/plugin.
package sealed
