// Package token issues, checks and describes service-account tokens.
//
// Tokens are JWTs signed with ES256 by the cluster's service-account key. Their
// claims are upstream's: iss, sub, aud, exp, nbf, iat, jti and, under
// "kubernetes.io", namespace, serviceaccount, pod, secret, node and warnafter.
// A token is good only while the objects it is bound to live: the
// authenticator looks each of them up through Getter. Tokens that never end are those
// in Secrets of type kubernetes.io/service-account-token alone (LegacyAuthenticator):
// each is good while its Secret holds it and its service account lives.
//
// Data passes through as: bearer token → issuer check without verification
// (cheap, bounded) → signature → times and audience → live objects → user.
//
// Keys holds the key that signs and all that verify. They are exchanged as a whole
// while requests run: each request sees the keys of before or of after. A key is for
// one algorithm; tokens of another cluster's keys (ES256 to ES512, RS256) can be
// verified, signing is by ES256.
//
// It must not import kernel/store or the resources; it sees objects through
// the small Getter interface.
package token
