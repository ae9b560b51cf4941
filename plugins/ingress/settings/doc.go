// Package settings is the configuration of the plugin ingress: its keys, their defaults
// and what is refused.
//
// # What it owns
//
// Settings, which New reads from the JSON that the kernel hands to the plugin. All other
// packages of the plugin get them as they are after that, with nothing missing.
//
// It imports sdk/controller for the decoder alone. It must not import kernel.
package settings
