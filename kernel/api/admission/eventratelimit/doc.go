// Package eventratelimit is the admission plugin EventRateLimit: it bounds how many
// events are written in a second, of the whole server, a namespace, a user, or a source
// about an object. Its configuration is upstream's kind Configuration
// (eventratelimit.admission.k8s.io/v1alpha1).
//
// It counts the events of both groups, which are the same objects. Upstream's counts
// those of core/v1 alone, so that a client goes round it by the other path.
//
// Memory is bounded: each limit keeps the buckets of so many keys as its cacheSize says,
// and a key is kept as a hash, whatever a user writes into an event.
package eventratelimit
