package main

import (
	"pintle.dev/pintle/plugins/postfilters/defaultpreemption"
	"pintle.dev/pintle/plugins/predicates/dynamicresources"
	"pintle.dev/pintle/plugins/predicates/interpodaffinity"
	"pintle.dev/pintle/plugins/predicates/nodeaffinity"
	"pintle.dev/pintle/plugins/predicates/nodename"
	"pintle.dev/pintle/plugins/predicates/nodeports"
	"pintle.dev/pintle/plugins/predicates/noderesourcesfit"
	"pintle.dev/pintle/plugins/predicates/nodeunschedulable"
	"pintle.dev/pintle/plugins/predicates/nodevolumelimits"
	"pintle.dev/pintle/plugins/predicates/podtopologyspread"
	"pintle.dev/pintle/plugins/predicates/tainttoleration"
	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/plugins/predicates/volumerestrictions"
	"pintle.dev/pintle/plugins/predicates/volumezone"
	"pintle.dev/pintle/plugins/preenqueues/schedulinggates"
	"pintle.dev/pintle/plugins/prefilters/nodeaffinityprefilter"
	"pintle.dev/pintle/plugins/prefilters/volumebindingprefilter"
	"pintle.dev/pintle/plugins/prefilters/volumerestrictionsprefilter"
	"pintle.dev/pintle/plugins/prefilters/volumezoneprefilter"
	"pintle.dev/pintle/plugins/priorities/imagelocality"
	"pintle.dev/pintle/plugins/priorities/interpodaffinityscore"
	"pintle.dev/pintle/plugins/priorities/nodeaffinityscore"
	"pintle.dev/pintle/plugins/priorities/noderesourcesbalancedallocation"
	"pintle.dev/pintle/plugins/priorities/noderesourcesfitscore"
	"pintle.dev/pintle/plugins/priorities/podtopologyspreadscore"
	"pintle.dev/pintle/plugins/priorities/tainttolerationscore"
	"pintle.dev/pintle/plugins/priorities/volumebindingscore"
	"pintle.dev/pintle/plugins/queuesorts/prioritysort"
	"pintle.dev/pintle/sdk"
)

// A WASM module has no main that runs, so registration is init's one work. Each
// kind is in the order of kube-scheduler's default profile.
func init() {
	sdk.RegisterNew(schedulinggates.New)
	sdk.RegisterNew(prioritysort.New)
	sdk.RegisterNew(nodeaffinityprefilter.New)
	sdk.RegisterNew(volumerestrictionsprefilter.New)
	sdk.RegisterNew(volumebindingprefilter.New)
	sdk.RegisterNew(volumezoneprefilter.New)

	sdk.RegisterNew(nodeunschedulable.New)
	sdk.RegisterNew(nodename.New)
	sdk.RegisterNew(tainttoleration.New)
	sdk.RegisterNew(nodeaffinity.New)
	sdk.RegisterNew(nodeports.New)
	sdk.RegisterNew(noderesourcesfit.New)
	sdk.RegisterNew(volumerestrictions.New)
	sdk.RegisterNew(nodevolumelimits.New)
	sdk.RegisterNew(volumebinding.New)
	sdk.RegisterNew(volumezone.New)
	sdk.RegisterNew(podtopologyspread.New)
	sdk.RegisterNew(interpodaffinity.New)
	sdk.RegisterNew(dynamicresources.New)

	sdk.RegisterNew(defaultpreemption.New)

	sdk.RegisterNew(tainttolerationscore.New)
	sdk.RegisterNew(nodeaffinityscore.New)
	sdk.RegisterNew(noderesourcesfitscore.New)
	sdk.RegisterNew(volumebindingscore.New)
	sdk.RegisterNew(podtopologyspreadscore.New)
	sdk.RegisterNew(interpodaffinityscore.New)
	sdk.RegisterNew(noderesourcesbalancedallocation.New)
	sdk.RegisterNew(imagelocality.New)
}
