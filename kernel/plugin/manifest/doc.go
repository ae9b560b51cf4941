// Package manifest owns the description of a bundle: its manifest, the files that the
// manifest pins, the schemas of its plugins' configurations, and the rights that it needs
// from an operator.
//
// A manifest comes from a bundle's folder (Read, ReadBundle, Find) or from bytes (Parse). It
// is untrusted: its size, names, paths and numbers are bounded. The error has one line per
// fault, with file and line. A manifest does not change after it was read. Bundle.Verify
// compares an artefact with its digest. Manifest.Provides compares the description that a
// build gives with the manifest.
//
// The plugin host, the catalog and the commands import it. It starts no goroutine and runs
// no code of a bundle. It may import sdk and the packages below kernel/plugin that describe
// a part of a manifest (admissionrules, description, groupversions, sealed). It must not
// import kernel/plugin itself.
package manifest
