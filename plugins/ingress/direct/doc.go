// Package direct sends requests without a body to HTTP/1.1 servers, on the goroutine of the
// caller.
//
// # What it owns
//
// Connections to endpoints for such requests, and those of them that are kept without a
// request. net/http's Transport has two goroutines for each connection, since a server may
// answer while a body is on its way. A request without a body needs neither of them, which
// saves more than half of what forwarding costs.
//
// # What it promises
//
// Requests are written and answers are read by net/http's own Request.Write and ReadResponse.
// No text of a peer is parsed here. A connection serves one request at a time. It is used
// again only where its answer ended in full and nothing came after it. Differences
// from Transport are seen by TestAsTransport, which asks both.
//
// # How data passes through
//
//	request → Plain → Transport.RoundTrip → connection (conn.go) → endpoint
//	                                     ↖ kept ones (pool.go)
//
// It knows neither the API nor routes, and must not import kernel.
package direct
