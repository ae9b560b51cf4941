package guest

import "time"

// Waits before what broke is started again: the first, and the longest of those that double.
const (
	FirstBackoff = 50 * time.Millisecond
	LastBackoff  = 30 * time.Second
	// SettledAfter is how long it must live for the back-off to start over.
	SettledAfter = time.Minute
)
