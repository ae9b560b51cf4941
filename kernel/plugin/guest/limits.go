package guest

import ()

// Bounds of what guests answer.
const (
	MaxReasonBytes = 64 << 10
	MaxVerdict     = 1 << 16
	// MaxCycleAnswer bounds an encoded CycleResponse.
	MaxCycleAnswer = 4 << 20
	// configureFactor: taking its configuration may last this many times a call.
	ConfigureFactor = 50
)
