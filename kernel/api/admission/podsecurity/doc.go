// Package podsecurity is the admission plugin PodSecurity: it holds pods
// against the level their namespace's labels pod-security.kubernetes.io/enforce,
// audit and warn name, privileged by default. The checks are those of
// k8s.io/pod-security-admission.
package podsecurity
