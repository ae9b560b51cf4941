package controller

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// connections of HTTP/1.1 there are at most; requests beyond wait for one. A
	// controller that begins five hundred requests at once would else open and close
	// hundreds of them, and more do not make the store faster.
	connections = 128
	// idleTime is how long an idle one is kept, as with client-go.
	idleTime = 90 * time.Second
)

// ConfigFor returns a client configuration over the unix socket at path. The
// socket is the credential, so the configuration holds none.
func ConfigFor(socket, userAgent string) *rest.Config {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	return &rest.Config{
		Host:               "http://pintle.local",
		UserAgent:          userAgent,
		QPS:                -1, // the API's own fairness is the limit
		DisableCompression: true,
		Dial:               dial, // of those who make a transport themselves
		Transport:          newSocketTransport(dial),
	}
}

// socketTransport carries the requests over one socket. Watches share a connection by
// HTTP/2, since a controller may watch any number of kinds and a socket takes a
// limited number of connections. The others go by HTTP/1.1, which costs less.
type socketTransport struct{ watches, others *http.Transport }

func newSocketTransport(dial func(ctx context.Context, network, address string) (net.Conn, error)) *socketTransport {
	t := &socketTransport{}
	for _, of := range []**http.Transport{&t.watches, &t.others} {
		*of = &http.Transport{
			DialContext: dial, DisableCompression: true,
			MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: idleTime,
			Protocols: new(http.Protocols),
		}
	}
	t.watches.Protocols.SetUnencryptedHTTP2(true)
	t.others.Protocols.SetHTTP1(true)
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *socketTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.RawQuery, "watch=") && req.URL.Query().Get("watch") != "false" {
		return t.watches.RoundTrip(req)
	}
	return t.others.RoundTrip(req)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (t *socketTransport) CloseIdleConnections() {
	t.watches.CloseIdleConnections()
	t.others.CloseIdleConnections()
}

// closeIdle closes the connections of a configuration that is not used any more. Those
// that a request still has are closed at its end.
func closeIdle(c *rest.Config) {
	if t, ok := c.Transport.(*socketTransport); ok {
		t.CloseIdleConnections()
	}
}

// protobufConfig is for typed clients of built-in kinds.
func protobufConfig(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return c
}
