// Package pullrecord remembers with which credentials images came to the node,
// so that an image which one pod's pull secret fetched is not used by a pod that
// could not fetch it itself (KubeletEnsureSecretPulledImages of 1.36).
//
// It owns two directories of records, as the kubelet writes them: pulling holds
// an intent for each pull under way, pulled what is known of an image. Who can
// read them learns which secret fetched what, and a digest of its credentials:
// they are root's. A record that cannot be read counts as one without
// credentials: the pod has to pull.
//
// Data passes by value; nothing of it runs by itself. It imports no other
// package of the node.
package pullrecord
