package guest

// Bounds of what guests answer.
const (
	MaxReasonBytes = 64 << 10
	MaxVerdict     = 1 << 16
	// MaxCycleAnswer bounds an encoded CycleResponse.
	MaxCycleAnswer = 4 << 20
	// ConfigureFactor: a configuration may take this many times as long as a call.
	ConfigureFactor = 50
)
