// Package quota says what objects cost under a ResourceQuota. The quota
// admission of the API server charges by it, and the resource-quota controller
// counts by it, so that both always agree.
//
// It has one evaluator each for pods (compute resources, scopes), services
// (node ports, load balancers), persistent volume claims (storage, by
// storage class) and resource claims (devices, by device class), and object counts for configmaps, replication controllers,
// resource quotas and secrets under their short names (000 RQC-3). Every other
// namespaced kind is counted as count/RESOURCE.GROUP by k8s.io/apiserver's
// generic evaluator.
//
// It imports k8s.io only. Evaluators are stateless and safe for concurrent use.
package quota
