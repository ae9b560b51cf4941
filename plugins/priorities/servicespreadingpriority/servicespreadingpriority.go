// Package servicespreadingpriority is the priority ServiceSpreadingPriority,
// the forerunner of SelectorSpreadPriority that knows services only (PRI-20).
// It is kept for policies of the first release (PRI-21).
package servicespreadingpriority

import (
	"pintle.dev/pintle/plugins/priorities/selectorspreadpriority"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "ServiceSpreadingPriority"

// New returns the priority: the same function with no controllers (PRI-22).
func New() sdk.Priority { return selectorspreadpriority.Over(Name, "Service") }
