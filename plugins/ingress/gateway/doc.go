// Package gateway reads the objects of Gateway API and makes of them what package routes
// serves: listeners with rules.
//
// # What it owns
//
// Which route is attached to which listener, which reference to another namespace is
// granted, and the conditions of Gateways and routes that say so. What is not served has a
// condition with a reason of the API.
//
// # What it promises
//
// Listeners are of ports that the operator's settings have; a Gateway opens none. A host
// belongs to one namespace, as package routes says, and for a Gateway that is the
// namespace of the Gateway. Routes of one namespace have a number of matches, and patterns
// a size, so that no namespace makes the table large or a request slow.
//
// # How data passes through
//
//	Objects → Prepare → Claims → routes.Compile → Prepared.Compile → listeners, Output
//
// It changes no object, knows no client and no socket, and must not import kernel.
package gateway
