// Package autoscaling says what a HorizontalPodAutoscaler is: defaults,
// validation, what may change and how a table prints it.
//
// It is one kind in two versions. autoscaling/v2 is the form in memory and in the
// store; autoscaling/v1 is converted when it comes in and when it goes out. What
// v1 has no field for stands in annotations there, under upstream's names, so
// that nothing is lost on the way through a client of v1.
//
// Kinds gives the served kind, AddToScheme its defaults and conversions. Rules,
// field paths and the words of errors are upstream's (Kubernetes 1.36). The
// package is stateless. It must not import kernel/api, the store, the bus or a
// plugin.
package autoscaling
