// Package framework owns the vocabulary that the parts of the scheduler share about the
// plugins of a policy. Plugins lists the plugins at each point of the cycle. A Status is the
// answer of a plugin that ended a step. A Failure lists the plugins that refused a pod, and
// the events that can help it. The names are those of kube-scheduler's package framework.
//
// # How data passes through
//
// PluginsOf reads a policy once. After a contractv1.CycleCall of its steps, the caller uses
// Stop to find out what ended it. A Status becomes an Outcome for users, an error, or a
// Failure. The Failure tells the queue what brings the pod back. All pods of a class share
// a Failure, and it never changes.
//
// Concerns says which pods a plugin is about. For all other pods it narrows the plugin's
// scope to one node.
//
// The package holds no state, calls no plugin and starts no goroutine. Of the packages
// beside it, it may import only convert.
package framework
