// Package config reads, checks and watches the one file that configures a
// kernel (apiVersion config.pintle.dev/v1alpha1, kind KernelConfiguration).
//
// # What it owns
//
// The schema is the Config struct: its fields' tags hold the key, the allowed
// range, whether a change takes effect while the kernel runs (live) and one
// line of documentation. Defaults are code (Default). Values come, weakest
// first, from the defaults, the file, PINTLE_… environment variables and --set.
//
// # How data passes through
//
// Load reads the file twice: once as a YAML tree, so that every fault can be
// named with its file and line (Check), and once through Viper, which merges
// the sources. Only this package knows Viper; every other package is handed a
// plain struct built from a Config by package kernel.
//
// # Caveats
//
// Viper folds keys to lower case. Maps whose keys belong to the user (labels,
// a plugin's own configuration) are therefore taken from the YAML tree.
//
// It must not import any other package of the kernel.
package config
