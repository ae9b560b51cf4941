// Package batch says what Jobs and CronJobs are (batch/v1): defaults,
// validation, what may change and how a table prints them.
//
// Kinds gives the served kinds, AddToScheme their defaults. Rules, field paths
// and the words of errors are upstream's (Kubernetes 1.36). A Job without a
// selector of its own gets one that its pods alone match. Schedules are read by
// the same library as upstream's, since what it accepts is the API.
//
// The package is stateless. It must not import kernel/api, the store, the bus or
// a plugin.
package batch
