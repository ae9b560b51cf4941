// Package node is the authorizer of node agents (user system:node:NAME of the
// group system:nodes): a node reads its own Node object and lease, the pods
// bound to it, and of Secrets, ConfigMaps, service accounts and claims those
// that its pods refer to; a stolen node credential gives no more than that.
// What is not a matter of one node (services, runtime classes, events) follows
// the rules of the ClusterRole system:node. Writes are narrowed further by
// admission/noderestriction, which sees the object.
//
// A reflector tells it of the pods on nodes (pods.go), of which it keeps what they
// refer to (references.go), by node. A pod may reach its node a moment before it is told
// of here: a missing relation is looked for again for a short time before it counts as
// missing.
//
// Secrets that a PersistentVolume names are not followed: node agents of this
// release mount no claims.
//
// It says "no opinion", never "no": another authorizer may allow more. It must
// not import the rest of the API server but auth/rbac and podreferences.
package node
