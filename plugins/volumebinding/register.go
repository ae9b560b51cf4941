package main

import (
	"pintle.dev/pintle/plugins/prebinds/volumebindingprebind"
	"pintle.dev/pintle/plugins/reserves/volumebindingreserve"
	"pintle.dev/pintle/sdk"
)

// Registration is init's one work, as in every bundle.
func init() {
	ledger := volumebindingreserve.NewLedger()
	sdk.RegisterNew(volumebindingreserve.New(ledger))
	sdk.RegisterNew(volumebindingprebind.New(ledger))
}
