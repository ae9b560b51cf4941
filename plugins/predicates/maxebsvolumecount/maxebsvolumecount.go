// Package maxebsvolumecount is the predicate MaxEBSVolumeCount: a node is unfit
// when it would mount more AWS EBS volumes than the limit, 39 by default
// (PRD-34).
package maxebsvolumecount

import (
	"pintle.dev/pintle/plugins/predicates/volumecount"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "MaxEBSVolumeCount"

// DefaultLimit is the number of distinct disks allowed without configuration.
const DefaultLimit = 39

// New returns the predicate.
func New() sdk.Predicate { return volumecount.New(Name, "awsElasticBlockStore", DefaultLimit) }
