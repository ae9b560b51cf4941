// Package credentials keeps in force what the directory of keys says while the
// kernel runs: the keys of service-account tokens, and the list of revoked
// certificates. Several kernels on one etcd follow each other by a record there.
//
// The directory is how an operator asks: whoever may write it has the CA's key and
// needs no further right. Commands change files under the directory's lock; the
// Keeper sees that within a second and says in in-force.json what is in force.
//
// Promises: a file that is damaged or half-written changes nothing, and is told of.
// Revocations only grow. A new key signs only when every kernel had the time to
// learn that it verifies. The shared record is sealed by a key that hangs on the
// CA's: who reads or writes etcd neither learns nor chooses a key.
//
// Data passes through as: files and the shared record → merged → files, record →
// token.Keys, revocation.Guard. It must not import the API server.
package credentials
