// Package certificates makes the certificates with which an etcd and its clients
// know each other: an authority of etcd's own, and a certificate each for servers,
// for peers and for the kernels.
//
// How data passes through: Write reads what the folder has and keeps it while it is
// good, makes the rest, and returns the paths. Who has a client's certificate can
// read and write the whole cluster, so that the authority is another than the
// cluster's: no certificate of a user or a node opens etcd.
//
// It imports the standard library alone.
package certificates
