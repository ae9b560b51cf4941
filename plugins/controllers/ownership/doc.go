// Package ownership is how a controller takes, keeps and lets go of the
// objects it controls: the controller reference decides who owns a child, the
// selector decides who may.
//
// An orphan that matches is adopted, a child that no longer matches is
// released, both by patches that carry the child's UID, so that a stale cache
// cannot touch an object of the same name. Nothing is adopted by an owner
// that is being deleted, which is asked of the API itself and not of a cache.
//
// It also holds the index by owner that several controllers put on the shared
// informers, and finds the cached object that a reference means or that might adopt an
// orphan. It imports client-go only.
package ownership
