// Package review is the admission plugin that asks plugins of the kernel about
// requests: those that change objects after the built-in ones that do, those
// that only refuse with the built-in ones that only refuse.
//
// How data passes through: a request that a plugin's rules match is encoded as
// an AdmissionRequest of admission.k8s.io/v1, once for all plugins of a phase
// that follow without a change; a JSON patch in the answer is applied, the
// object decoded and defaulted again. A request that no plugin matches costs a
// look at their rules.
//
// A plugin that cannot answer refuses the request, unless it is to be ignored
// then. Before the plugins are known a request waits, and is refused after a few
// seconds. Plugin objects themselves are not reviewed: what refuses everything can
// still be switched off. Nor is what the kernel itself writes to start: the API
// server the system's namespaces and roles, the plugin host the plugins' roles. A
// kernel that could not would not start, and nobody could switch anything off.
// Who is the kernel the way in says, and not a name.
//
// It knows plugins as an interface and must not import kernel/plugin.
package review
