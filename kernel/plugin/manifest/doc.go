// Package manifest owns what a bundle says of itself: its manifest, the files that this
// pins, the schemas of its plugins' configurations, and what it asks an operator for.
//
// A manifest is read from a bundle's folder (Read, ReadBundle, Find) or from bytes (Parse).
// It is untrusted: its size, names, paths and numbers are bounded, and each fault is one
// line of the error with file and line. A manifest is not changed after it was read.
// Bundle.Verify compares an artefact with its digest; Manifest.Provides compares what a
// build describes with what the manifest promises.
//
// The plugin host, the catalog and the commands import it. It starts no goroutine and runs
// nothing of a bundle. It may import sdk and the packages below kernel/plugin that describe
// a part of a manifest (admissionrules, description, groupversions, sealed); it must not
// import kernel/plugin itself.
package manifest
