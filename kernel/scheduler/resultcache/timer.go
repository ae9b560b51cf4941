package resultcache

import (
	"time"
)

// Timer counts how long the steps of an attempt take.
type Timer interface {
	Start() time.Time
	// Since counts the time that a point took, and returns when it ended.
	Since(began time.Time, title, status string) time.Time
}

// stopwatch is a timer, or none.
type stopwatch struct{ Timer }

func (w stopwatch) start() time.Time {
	if w.Timer == nil {
		return time.Time{}
	}
	return w.Start()
}

func (w stopwatch) since(began time.Time, title, status string) time.Time {
	if w.Timer == nil {
		return began
	}
	return w.Since(began, title, status)
}
