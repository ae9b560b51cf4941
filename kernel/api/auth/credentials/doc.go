// Package credentials keeps in force what the directory of keys says while the
// kernel runs: the keys of service-account tokens, and the list of revoked
// certificates. Several kernels on one etcd follow each other by a record there.
//
// An operator asks by changing the directory. Write access to it is the only right
// that this needs, since the directory holds the CA's key. Commands change files under
// the directory's lock. The Keeper sees a change within a second, and writes to
// in-force.json what is in force.
//
// Promises: a file that is damaged or half-written changes nothing, and the log and
// in-force.json report it. Revocations only grow. A new key signs only after every
// kernel had the time to learn that it verifies. The shared record is sealed by a key
// that is derived from the CA's key: access to etcd alone neither shows a key nor
// lets anyone choose one.
//
// Data passes through as: files and the shared record → merged → files, record →
// token.Keys, revocation.Guard. It must not import the API server.
package credentials
