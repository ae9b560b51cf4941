// Package proxy takes requests of clients and forwards them to backends.
//
// # What it owns
//
// The listeners of the plugin, the connections of clients and those to endpoints, and the
// bounds of all of them. Forwarding itself is net/http/httputil's ReverseProxy; package
// plugins/ingress says why. What has no body goes to its endpoint by package direct.
//
// # What it promises
//
// A new table is in force with the next request; no connection ends for it. A request is
// sent to a second endpoint only where no connection to the first came about, or where one
// broke and the request is a GET, HEAD or OPTIONS without a body. Backends see the client's address, host and scheme in X-Forwarded-*
// alone as this package wrote them, unless a trusted proxy is in front. A client that
// trickles is cut: header, body and answer have a time each, and an address has a number
// of connections. One namespace has a share of the requests under way, so that a backend
// that hangs leaves the others theirs.
//
// # How data passes through
//
//	listener (gate.go) → handle (handle.go) → routes.Table → ReverseProxy → forward.go → Transport or direct → endpoint
//
// It knows no client of the API, and must not import kernel.
package proxy
