// Package configuration reads an AdmissionConfiguration (apiserver.config.k8s.io/v1):
// what admission plugins are configured by, each under its name, inline or in a file
// of its own.
//
// How data passes through: file → strict decoding → for each plugin the bytes of its
// own configuration, which the plugin reads and checks itself. A plugin that nobody
// knows, or that takes no configuration, is refused, where upstream passes over it.
//
// Files that others may write are refused, since admission is what keeps others out.
//
// It must not import the plugins.
package configuration
