// Package dualstack reads what the configuration has once, or once for each IP family: ranges and
// addresses, with a comma between them, as Kubernetes' flags have them.
//
// # What it owns
//
// The form, and that a text has no family twice. The first family is the primary one.
//
// # How data passes through
//
//	"10.244.0.0/24,fd00:244::/64" → Ranges → []netip.Prefix → Join → the same text
//
// It imports nothing of Pintle.
package dualstack
