package kernel

import "time"

// Step is something that became ready during the start.
type Step struct {
	Name   string        // store, api, plugins, node …
	Detail string        // one line for people
	Took   time.Duration // since Run began
}
