// Package audit records who asked the API for what: upstream's policy files
// (audit.k8s.io/v1), to a file that is rotated, to a webhook, or to both.
//
// New reads the policy and makes the backend, both of k8s.io/apiserver; the handler
// chain hands events to it, and the server runs and ends it. Without a policy file
// the one in policy.yaml holds. Whatever a policy says, bodies that are secrets
// themselves are not recorded (never).
//
// The package must not import kernel/api, the store, the bus or a plugin.
package audit
