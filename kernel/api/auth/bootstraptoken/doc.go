// Package bootstraptoken authenticates by bootstrap tokens: ID.SECRET of a Secret
// bootstrap-token-ID in kube-system, of type bootstrap.kubernetes.io/token.
//
// How data passes through: token → its form → the Secret of its ID, as it is now →
// secret, usage and expiry → the user system:bootstrap:ID in system:bootstrappers and
// the groups of the Secret, which all begin so. A Secret of another form is nobody's:
// it can name no other user or group.
//
// It must not import the API server, and sees Secrets by a function.
package bootstraptoken
