// Package podreferences finds the Secrets and ConfigMaps that a pod names:
// image pull secrets, the environments of all its containers, volumes.
//
// Who may read a Secret (auth/node) and who may not name one (admission of
// service accounts) must look at the same places, which are listed here once.
//
// It imports the types of k8s.io/api and nothing of this project.
package podreferences
