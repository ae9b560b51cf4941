// Package proxy is what the author of a proxy plugin imports. A proxy receives
// services and their endpoints as diffs for its node and programs a data path.
//
// Implement Proxy, name it in Serve. The node agent calls Probe (can this
// proxy run here?), Start, then Apply for each diff, in order and one at a
// time; the first diff after Start has Reset set. State folds diffs into what
// there is now. An Apply that fails leaves the plugin to try again with the
// next diff or by itself; the data path that was there keeps carrying traffic.
//
// The package imports the contract and the transport only.
package proxy
