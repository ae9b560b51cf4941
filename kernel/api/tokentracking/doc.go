// Package tokentracking keeps the ConfigMap
// kube-system/kube-apiserver-legacy-service-account-token-tracking, which says since
// which day the use of service accounts' tokens in Secrets is written down. Who cleans
// such Secrets away goes by it: before that day an unused token looks as a used one.
//
// How data passes through: the ConfigMap changes or is gone → it is looked at as it
// is now → it is made, or gets today's date where its own is none. A date that can be
// read is left alone. It works through a client alone, and imports nothing of the
// kernel; several kernels may do this at the same time.
package tokentracking
