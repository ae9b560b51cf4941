package controller

import (
	"context"
	"net"

	"k8s.io/client-go/rest"
)

// ConfigFor returns a client configuration over the unix socket at path. The
// socket is the credential, so the configuration holds none.
func ConfigFor(socket, userAgent string) *rest.Config {
	return &rest.Config{
		Host:               "http://pintle.local",
		UserAgent:          userAgent,
		QPS:                -1, // the API's own fairness is the limit
		DisableCompression: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}
}

// protobufConfig is for typed clients of built-in kinds.
func protobufConfig(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return c
}
