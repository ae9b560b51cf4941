// Package servicecidr is the controller that keeps a ServiceCIDR as long as
// services need its addresses. It gives each ServiceCIDR a finalizer and the
// condition Ready. When one is deleted it waits until no IPAddress of a service
// lies in it that no other ServiceCIDR has, says so in the condition, and takes
// the finalizer away.
//
// Upstream's follows IPAddress objects in an informer. This one lists them, and only
// while a ServiceCIDR is being deleted, every few seconds: a cluster with ten
// thousand services would pay memory for what hardly ever happens. It decides on
// what the API server says at that moment, not on a cache. Another ServiceCIDR
// that is being deleted itself counts for nothing.
//
// Ten seconds lie between the delete and the end, as upstream's: a request that had
// read the ServiceCIDR before may still write a service.
package servicecidr
