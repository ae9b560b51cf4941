package server

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// apiSocket is the path of the socket that stands for the plugin.
var apiSocket atomic.Pointer[string]

// The kubernetes plugin of CoreDNS makes its client by itself, of an address in the
// Corefile. An address without TLS goes by the process's default transport, which has
// the socket here whatever the address. So nothing else in the process can ask any
// other HTTP server by mistake.
func init() {
	http.DefaultTransport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			path := apiSocket.Load()
			if path == nil {
				return nil, net.ErrClosed
			}
			var d net.Dialer
			return d.DialContext(ctx, "unix", *path)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
	}
}
