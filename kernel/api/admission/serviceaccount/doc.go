// Package serviceaccount is the admission plugin ServiceAccount: a pod runs as
// an existing service account ("default" when it names none), gets its image
// pull secrets and, unless automounting is off, a projected volume with a
// token, the cluster's CA and its namespace, mounted in each container.
//
// The default account of a new namespace is made by a controller; a pod that
// comes earlier waits for it for about two seconds.
package serviceaccount
