// Package framework owns what the parts of the scheduler say to each other about the
// plugins of a policy: which there are at each point of the cycle (Plugins), what one
// answered that ended a step (Status), who refused a pod and which events can help it
// (Failure). The words are those of kube-scheduler's package of this name.
//
// # How data passes through
//
// PluginsOf reads a policy once. Whoever makes a contractv1.CycleCall of its steps asks
// Stop what ended it. A Status becomes an Outcome for users, an error, or a Failure by
// which the queue knows what brings the pod back. A Failure is shared by the pods of a
// class and never changed.
//
// Which pods a plugin has to do with (Concerns) narrows its scope: for others it looks
// at one node alone.
//
// Nothing here holds state, asks a plugin or starts a goroutine. The package must not
// import the packages beside it but convert.
package framework
