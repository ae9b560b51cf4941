package direct

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Transport implements http.RoundTripper for requests of which Plain is true. Its fields do
// not change after its first request.
type Transport struct {
	// Dial connects to HOST:PORT.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// MaxIdle bounds the connections that are kept without a request, MaxIdlePerHost those of
	// one HOST:PORT.
	MaxIdle, MaxIdlePerHost int
	// IdleTimeout is how long one is kept.
	IdleTimeout time.Duration
	// ResponseTimeout bounds the time until the header of an answer is there.
	ResponseTimeout time.Duration
	// MaxHeaderBytes of an answer.
	MaxHeaderBytes int64

	pool pool
}

// Plain reports whether a request may go this way: it changes nothing at the server, has no
// body, and does not ask for another protocol.
func Plain(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		return false
	}
	if r.Body != nil && r.Body != http.NoBody || r.ContentLength != 0 || len(r.TransferEncoding) > 0 || len(r.Trailer) > 0 || r.Close {
		return false
	}
	for _, name := range []string{"Upgrade", "Connection", "Expect"} {
		if _, there := r.Header[name]; there {
			return false
		}
	}
	return r.URL.Scheme == "http" && r.URL.Host != ""
}

// RoundTrip implements http.RoundTripper. Where a connection was kept and its server ended it
// before it answered, another one is made.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !Plain(r) {
		return nil, fmt.Errorf("send a request to %s: it has a body, or asks for another protocol", r.URL.Host)
	}
	if err := checkHeader(r.Header); err != nil {
		return nil, err
	}
	ctx := r.Context()
	for kept := true; ; kept = false {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var c *conn
		if kept {
			c = t.pool.take(r.URL.Host)
		}
		reused := c != nil
		if c == nil {
			raw, err := t.Dial(ctx, "tcp", r.URL.Host)
			if err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return nil, err
			}
			c = newConn(t, r.URL.Host, raw)
		}
		response, err := c.exchange(r)
		if err == nil {
			return response, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !reused || !errors.As(err, new(silence)) {
			return nil, err
		}
	}
}

// CloseIdleConnections closes connections without a request. Those of requests under way are
// closed when these have ended.
func (t *Transport) CloseIdleConnections() { t.pool.close() }

// checkHeader refuses what is no header, as net/http's Transport does.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("send a request: invalid header field name %q", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("send a request: invalid header field value for %q", name)
			}
		}
	}
	return nil
}
