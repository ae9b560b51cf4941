package main

import (
	"pintle.dev/pintle/plugins/predicates/checknodeunschedulable"
	"pintle.dev/pintle/plugins/predicates/hostname"
	"pintle.dev/pintle/plugins/predicates/matchnodeselector"
	"pintle.dev/pintle/plugins/predicates/maxebsvolumecount"
	"pintle.dev/pintle/plugins/predicates/maxgcepdvolumecount"
	"pintle.dev/pintle/plugins/predicates/nodiskconflict"
	"pintle.dev/pintle/plugins/predicates/novolumezoneconflict"
	"pintle.dev/pintle/plugins/predicates/podfitshostports"
	"pintle.dev/pintle/plugins/predicates/podfitsresources"
	"pintle.dev/pintle/plugins/predicates/podtoleratesnodetaints"
	"pintle.dev/pintle/plugins/priorities/balancedresourceallocation"
	"pintle.dev/pintle/plugins/priorities/equalpriority"
	"pintle.dev/pintle/plugins/priorities/imagelocalitypriority"
	"pintle.dev/pintle/plugins/priorities/leastrequestedpriority"
	"pintle.dev/pintle/plugins/priorities/nodeaffinitypriority"
	"pintle.dev/pintle/plugins/priorities/selectorspreadpriority"
	"pintle.dev/pintle/plugins/priorities/servicespreadingpriority"
	"pintle.dev/pintle/sdk"
)

// A WASM module has no main that runs, so registration is init's one work.
func init() {
	for _, p := range predicates() {
		sdk.RegisterNew(p)
	}
	for _, p := range priorities() {
		sdk.RegisterNew(p)
	}
}

// predicates are the eight of the default provider (SCH-13) and the two that a
// cluster needs on its first day.
func predicates() []func() sdk.Predicate {
	return []func() sdk.Predicate{
		checknodeunschedulable.New,
		podtoleratesnodetaints.New,
		hostname.New,
		matchnodeselector.New,
		podfitshostports.New,
		podfitsresources.New,
		nodiskconflict.New,
		novolumezoneconflict.New,
		maxebsvolumecount.New,
		maxgcepdvolumecount.New,
	}
}

// priorities are the seven that exist (SCH-14); which of them count, and how
// much, is the profile's (SCH-15).
func priorities() []func() sdk.Priority {
	return []func() sdk.Priority{
		leastrequestedpriority.New,
		balancedresourceallocation.New,
		selectorspreadpriority.New,
		nodeaffinitypriority.New,
		equalpriority.New,
		servicespreadingpriority.New,
		imagelocalitypriority.New,
	}
}
