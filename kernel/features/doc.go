// Package features has the feature gates of Kubernetes, under upstream's names:
// which there are, what they stand for in Pintle, and which can be set.
//
// It owns the list of gates (gates.txt, of upstream's own code), what differs from
// their defaults here and why, and the gates of the libraries, which it holds at the
// level of Kubernetes that the API has. It promises that a gate has no other value
// than the one that is true: what cannot be switched cannot be set.
//
// It is below everything else in the kernel and imports none of its packages but
// yamltree. Names and values come from the configuration (Check), and go to the
// libraries' own gates (Use), where the code that they switch asks for them.
//
// The libraries keep their gates once per process: several kernels of one process
// share them, and the last that starts sets them.
package features
