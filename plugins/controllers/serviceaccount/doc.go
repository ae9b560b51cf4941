// Package serviceaccount is the controller that keeps a ServiceAccount named
// default in every active namespace (003 ARC-5): one is made when a namespace
// appears and made again when it is deleted.
//
// It only creates; it never changes an account that is there.
package serviceaccount
