package guest

// The calls of Asserter: what a plugin can say about a class.
const (
	CallAloof       = "aloof"
	CallIdle        = "idle"
	CallIndifferent = "indifferent"
	CallMoved       = "moved"
)
