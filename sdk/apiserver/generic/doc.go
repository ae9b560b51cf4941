// Package generic makes a plugin of an API server that is built on k8s.io/apiserver,
// such as Kubernetes' own sample-apiserver: Configure tells its configuration who asks
// and how it reaches the cluster, Instance is what sdk/apiserver serves then.
//
// The server has no address, certificate and kubeconfig of its own. It keeps its
// handler chain, storage, hooks and orderly end.
//
// Data passes: sdk/apiserver's socket → the server's whole handler chain.
//
// It must not import the kernel.
package generic
