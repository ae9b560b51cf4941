// Package maxgcepdvolumecount is the predicate MaxGCEPDVolumeCount: a node is unfit
// when it would mount more GCE persistent disks than the limit, 16 by default
// (PRD-35).
package maxgcepdvolumecount

import (
	"pintle.dev/pintle/plugins/predicates/volumecount"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the predicate.
const Name = "MaxGCEPDVolumeCount"

// DefaultLimit is the number of distinct disks allowed without configuration.
const DefaultLimit = 16

// New returns the predicate.
func New() sdk.Predicate { return volumecount.New(Name, "gcePersistentDisk", DefaultLimit) }
