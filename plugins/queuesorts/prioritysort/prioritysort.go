// Package prioritysort is the queue-sort plugin PrioritySort: pods of a higher
// priority go first, and of one priority those that have been in the queue longest.
package prioritysort

import "pintle.dev/pintle/sdk"

// Name is the name by which configurations switch the plugin.
const Name = "PrioritySort"

// New returns the plugin. It takes no configuration.
func New() sdk.QueueSort {
	return sdk.QueueSort{Name: Name, ByClass: true, Key: func(pod *sdk.QueuedPod) sdk.SortKey {
		return sdk.SortKey{Number: -int64(pod.Priority)}
	}}
}
