// Package measured tells how long admission plugins take, in kube-apiserver's metrics
// apiserver_admission_controller_admission_duration_seconds and
// apiserver_admission_step_admission_duration_seconds.
//
// It owns the metrics, and wraps plugins and the chain. A pod passes some twenty
// plugins, so that an observation costs no look-up: those of each plugin are found
// once. It imports the API's libraries only.
package measured
