package scheduler

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// PredicateInfo describes one predicate of a policy.
type PredicateInfo = contractv1.PredicateInfo

// PriorityInfo describes one priority of a policy.
type PriorityInfo = contractv1.PriorityInfo

// Policy is an ordered set of predicates and priorities as the plugin host
// serves it to the scheduler; the contract stands with sdk/contract/v1, so
// that the host implements it without importing this package.
type Policy = contractv1.Policy

// PolicySource hands out the present policy of a profile.
type PolicySource = contractv1.PolicySource

// ReplicaSource hands out the whole replica; the scheduler implements it.
type ReplicaSource = contractv1.ReplicaSource
