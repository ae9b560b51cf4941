package guest

import ()

const (
	CallAloof       = "aloof"
	CallIdle        = "idle"
	CallIndifferent = "indifferent"
	CallMoved       = "moved"
)
