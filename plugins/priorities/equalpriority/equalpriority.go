// Package equalpriority is the priority EqualPriority: every node is as good as
// every other (PRI-31).
package equalpriority

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch and weigh the priority.
const Name = "EqualPriority"

// New returns the priority. Its score is 1, neither 0 nor 10 (PRI-31).
func New() sdk.Priority {
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizeNone,
		Score: func(*sdk.Request) int64 { return 1 },
	}
}
