// Package conformance is the contract's own suite for built bundles: what every
// predicate and priority, in every language, must do beside being right.
//
// Check asks an artefact (sdk/artifact) about what it describes, bad
// configurations, malformed deltas, questions that cannot be answered, and
// random clusters (World): the same question twice, in another order, one node
// at a time, and to a fresh replica must have one answer, and a replica that is
// written again and again must not grow. Agree asks several artefacts, such as a
// source, its module and its process, the same and compares. Cases are an
// author's own expectations, kept in files that no language has to compile.
//
// Everything random follows from a seed; a finding names the seed that shows it.
//
// It imports sdk and sdk/artifact, and no testing package: the command pintle
// plugin test runs it too. sdk/plugintest is how Go tests use it.
package conformance
