// Package consistency keeps a controller from deciding by a cache that does not
// show yet what the controller wrote. A Store remembers, for each owner, the
// newest version that was written of each kind, and Ready compares it with what
// the informer's cache has reached.
//
// Resource versions are compared as numbers, as Kubernetes promises since 1.35.
// A version that is no number holds nothing back. Deletions have no version, and
// are not remembered. It imports client-go only.
package consistency
