// Package pki owns the keys and certificates of one cluster.
//
// It keeps a directory (DataDir/pki) with the cluster CA, the API server's
// serving certificate, client certificates of the components, the certificates
// of each node and the key that signs service-account tokens. Open creates
// what is missing and renews what is about to expire or no longer names the
// right hosts, and Keep does so while the kernel runs: a Leaf gives servers and
// clients the present certificate. A CA that exists is never replaced, since every
// certificate handed out hangs on it; the token key is exchanged by package
// credentials. SignRequest signs for others, and refuses what would be the API server
// or a member of system:masters. Each certificate that is issued is recorded until it expires. Those
// that were revoked (ca.crl) are refused by the Guard and issued anew. Directory is
// the same for commands, beside a kernel that runs or not: a lock keeps them apart.
// The front proxy (DataDir/pki/front-proxy), by whose certificate other API servers
// know this one, has an authority of its own, which is made when it is asked for.
//
// Promises: private keys and kubeconfigs are readable by the owner only
// (0600, directory 0700), and Open makes those so that are not; each file is written
// to a temporary name, synced and renamed, so that a crash leaves the old file or the
// new one; a damaged file is reported by path and what to do, and is left alone. A
// certificate is written after its key: when a crash falls between the two the pair
// does not match, and the next Open issues both again.
//
// It must not import the rest of the API server. All keys are ECDSA P-256.
package pki
