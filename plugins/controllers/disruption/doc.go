// Package disruption keeps the status of each PodDisruptionBudget: how many
// of its pods are expected, how many must be and are healthy, and how many
// may be evicted now. The API's eviction counts that number down and notes
// the pod; here the note is dropped when the pod is gone, or after two minutes
// if it stays.
//
// The expected number is the sum of what the pods' controllers want, each
// counted once (scale.go): replica sets and what they belong to, replication
// controllers, and any other kind through its scale subresource. If it cannot be told, nothing may be evicted.
//
// It also takes the mark of a disruption off pods that were marked and not
// deleted within two minutes.
package disruption
