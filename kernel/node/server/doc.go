// Package server is the kubelet's HTTPS interface (KLT-35): container logs, exec, attach, port-forward, the pods of
// the node, health, metrics and statistics, in the paths and parameters that the API server uses.
//
// Nothing is anonymous: a client shows a certificate of the cluster's CA or a bearer token that the API accepts, and
// is one of the configured API clients or allowed by a SubjectAccessReview for nodes/<subresource>. Streams are not
// handled here: after the runtime named its streaming address the connection is passed through. A second, unprotected
// port (KLT-36) is absent, as in Kubernetes today it is off.
//
// The node's own statistics are the machine's (kernel/node/stats): /stats/summary, and /metrics/resource, which
// metrics-server reads. /configz tells the settings as a KubeletConfiguration; /logs are the machine's, and no link leads
// out of their folder.
//
// It must not be imported by other packages of kernel/node but node itself.
package server
