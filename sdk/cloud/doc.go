// Package cloud is what the author of a cloud provider imports: a plugin of kind cloud
// implements cloudprovider.Interface of k8s.io/cloud-provider, and this package runs
// Kubernetes' own controllers by it.
//
// # What it owns
//
// The node, node life cycle, route and service controllers of k8s.io/cloud-provider, as
// they are there: their settings, start and end. The kernel starts a provider as it starts
// a controller (contract/v1, Controllers), in the one kernel that leads. One process may
// hold providers and controllers, which share the informers.
//
// # What it promises
//
// A provider that panics, hangs or answers rubbish costs the object in question its turn,
// and nothing else (guard.go, answers.go). When Run has returned, no call of the provider
// is under way, and no request of its client (gate.go). What upstream's controllers leave
// at shared informers is taken off (informers.go).
//
// Data passes: informers → upstream's controllers → guard → provider → answers → status of
// services and nodes, by a client with the plugin's own identity.
//
// It must not import the kernel or a plugin.
package cloud
