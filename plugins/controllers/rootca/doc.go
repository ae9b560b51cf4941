// Package rootca is the controller that publishes the certificate bundle of
// the API in every active namespace, as ConfigMap kube-root-ca.crt with the
// one key ca.crt, for the service account volumes of pods. What is changed or
// deleted by hand is put right again.
//
// The bundle is part of its configuration: without one it refuses to start.
package rootca
