// Package kubescheduler translates what kube-scheduler is configured with into a
// configuration of this kernel: a KubeSchedulerConfiguration
// (kubescheduler.config.k8s.io/v1, as of Kubernetes 1.36) and the Policy file that
// came before it (apiVersion v1 or none, kind Policy).
//
// # What it owns
//
// The vocabulary of both formats: which plugins Kubernetes has, at which points of
// the cycle, with which defaults and weights, and what each is called in the
// bundles modern and classic (names.go, policynames.go). Names are all it has of
// them: nothing is loaded, and whether a bundle is there the plugin host says when
// the result is used. What Kubernetes does not have is taken over by the names of the
// plugins that the caller has found installed (installed.go).
//
// # How data passes through
//
// The text is read as a YAML tree (JSON is YAML), so that everything can be named
// with its line (source.go), and decoded strictly into upstream's own types.
// Plugin sets are merged and expanded as upstream does (profile.go), arguments are
// checked with upstream's words (arguments.go), and a Translation is written as
// YAML, or into an existing configuration whose other keys and comments stay
// (write.go).
//
// Describe (describe.go) is the way back, for /configz.
//
// # Promises
//
// Nothing is left out in silence. What has a counterpart is translated; what needs
// none is a note; what is not supported is a fault that says what to do, and Translate
// returns it with what it could do without.
//
// It imports kernel/config for faults, and no other package of the kernel.
package kubescheduler
