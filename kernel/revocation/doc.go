// Package revocation keeps the certificates of the cluster's authority that are
// good no more, and refuses those who show them.
//
// A List is what a certificate revocation list (RFC 5280) of the authority says,
// read from a file that the authority signed. A Guard holds the list in force: it
// refuses requests with a revoked certificate, on connections that are there too,
// and cuts the connections of a certificate when that is revoked, with the
// watches and streams on them.
//
// Promises: a list that is damaged or not of the authority is an error, never an
// empty list; an absent file is one. A list in force only grows while the process
// runs. Between the check of a request and a change of the list nothing slips
// through: a connection is noted before the list is looked at.
//
// Data passes through as: file → List → Guard ← connection, request. It must not
// import the API server or the node agent, which both use it.
package revocation
