// Package legacytokens is the controller legacy-serviceaccount-token-cleaner: it takes
// away tokens of service accounts that Kubernetes made into Secrets by itself before
// 1.24, after a year without use.
//
// How data passes through: once a day the Secrets of the type are listed → one that
// was not used, is in its service account's list and in no pod gets the label
// kubernetes.io/legacy-token-invalid-since, with which the API refuses its token →
// one that has had the label for the same time again is deleted. Uses are known
// since the day in the ConfigMap kube-apiserver-legacy-service-account-token-tracking;
// before a whole period has passed since then nothing is done.
//
// It asks with its own client when it needs to know, and keeps no Secret in memory.
package legacytokens
