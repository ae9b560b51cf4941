// Package flowcontrol gives each request its turn: API priority and fairness, of
// k8s.io/apiserver, over the FlowSchema and PriorityLevelConfiguration objects of
// the server itself.
//
// New makes the controller that reads those objects and the filter that holds
// requests back by them. Maintain keeps the objects that every cluster has:
// upstream's suggested and mandatory ones, and those of Pintle's own identities.
// Observe tells the filter how many objects there are, by which it estimates lists.
//
// What one client may hold beside its turns (bodies, watches, connections) is
// package kernel/api/limits. The package must not import kernel/api, the store,
// the bus or a plugin.
package flowcontrol
