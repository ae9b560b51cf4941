// Package bootstraptokens has the controllers of bootstrap tokens, which are Secrets of
// type bootstrap.kubernetes.io/token in kube-system. Both are off unless they are named
// in controllers.enabled, as in kube-controller-manager.
//
// bootstrapsigner: a token or the ConfigMap kube-public/cluster-info changes → its key
// kubeconfig is signed (JWS, detached, HS256) by each token that may sign and has not
// expired → keys jws-kubeconfig-ID are those signatures and no others. A machine that
// joins knows by its token that the cluster's address and authority are the right ones.
// It makes no ConfigMap: who sets up the cluster does.
//
// tokencleaner: a token changes → it is deleted when it expires.
//
// RBAC cannot tell Secrets of a type. Each controller has a watch of its own, of that
// type, with its own rights in kube-system alone; the bundle's informers may not read
// Secrets.
package bootstraptokens
