// Package admission is for plugins that look at a request to the API before it
// is carried out: a Mutator may change the object, a Validator may refuse it.
// They are what admission webhooks are, without a server, a certificate or a
// hop over the network, and see the same request.
//
// How data passes through: the API server asks each plugin whose rules match,
// mutators in order, then validators; the request is JSON in the form of
// admission.k8s.io/v1 AdmissionRequest, the answer of AdmissionResponse. A
// plugin that fails refuses the request unless its manifest says onFailure:
// ignore.
//
// It imports sdk and the standard library; a process build adds the transport.
// Objects are the author's own structs: k8s.io/api is not needed.
//
// Caveats: Review may run for several requests at once in a process, and in
// several instances of a module; what it keeps between calls is no truth. The
// deadline is ten times that of a call of the bundle.
package admission
