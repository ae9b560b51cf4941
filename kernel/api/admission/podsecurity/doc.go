// Package podsecurity is the admission plugin PodSecurity: it holds pods
// against the level their namespace's labels pod-security.kubernetes.io/enforce,
// audit and warn name, or else the defaults of a PodSecurityConfiguration, which
// also names who is exempt. The checks are those of k8s.io/pod-security-admission.
package podsecurity
