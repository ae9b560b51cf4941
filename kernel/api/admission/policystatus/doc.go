// Package policystatus is the controller validatingadmissionpolicy-status: it checks
// the types that the expressions of a ValidatingAdmissionPolicy use, and writes what
// it finds into the status. Upstream's runs in kube-controller-manager; here it needs
// the API server's OpenAPI documents and compiles CEL, which that server does anyway.
//
// Data passes: an informer's event → a queue of names → one worker, which checks a
// policy whose generation its status has not seen and applies the status. The worker
// ends with the context of Run. Nothing is made until there is a policy.
//
// The package must not import kernel/api.
package policystatus
