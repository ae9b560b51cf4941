package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pintle.dev/pintle/plugins/ingress/direct"
	"pintle.dev/pintle/plugins/ingress/routes"
	"pintle.dev/pintle/plugins/ingress/settings"
)

// attempts is how many endpoints a request is tried at.
const attempts = 3

// errNobody is the error of a backend without endpoints.
var errNobody = errors.New("the service has no endpoint that is ready")

// errTooMany is the error of a namespace with too many connections to its endpoints.
var errTooMany = errors.New("too many connections to endpoints of the namespace")

const (
	// maxIdle is how many connections of one kind are kept open without a request, and
	// maxIdleWithBody how many of those of HTTP that had bodies.
	maxIdle         = 128
	maxIdleWithBody = 32
	// idleTimeout is how long one is kept.
	idleTimeout = 30 * time.Second
)

// forwarder sends requests to endpoints.
type forwarder struct {
	settings *settings.Settings
	// open bounds connections to endpoints and attempts at them, which outlive a request
	// that was given up.
	open       *budget
	transports map[routes.Scheme]*http.Transport
	// direct has requests without a body to endpoints of HTTP; nil: transports have them all.
	direct *direct.Transport
}

func newForwarder(s *settings.Settings) *forwarder {
	most := s.MaxRequests + maxIdle
	f := &forwarder{settings: s, open: newBudget(most, s.MaxRequestsPerNamespace+maxIdle, most), transports: map[routes.Scheme]*http.Transport{}}
	for _, scheme := range []routes.Scheme{routes.HTTP, routes.H2C, routes.HTTPS} {
		dialer := &net.Dialer{Timeout: s.ConnectTimeout.Duration, KeepAlive: 15 * time.Second}
		t := &http.Transport{
			DialContext:            f.dial(dialer),
			DisableCompression:     true, // what the client takes is between it and the backend
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        idleTimeout,
			TLSHandshakeTimeout:    s.HeaderTimeout.Duration,
			ResponseHeaderTimeout:  s.BackendTimeout.Duration,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: int64(s.MaxHeaderBytes),
			Protocols:              new(http.Protocols),
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second, MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 1 << 20},
		}
		switch scheme {
		case routes.H2C:
			t.Protocols.SetUnencryptedHTTP2(true)
		case routes.HTTPS:
			t.Protocols.SetHTTP1(true)
			t.Protocols.SetHTTP2(true)
			// An Ingress has no place for the authority of its backends' certificates.
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // as said
		default:
			t.Protocols.SetHTTP1(true)
		}
		f.transports[scheme] = t
	}
	if s.DirectForwarding {
		f.direct = &direct.Transport{
			Dial: f.dial(&net.Dialer{Timeout: s.ConnectTimeout.Duration, KeepAlive: 15 * time.Second}),
			// They share the number of those that are kept.
			MaxIdle: maxIdle - maxIdleWithBody, MaxIdlePerHost: 64, IdleTimeout: idleTimeout,
			ResponseTimeout: s.BackendTimeout.Duration, MaxHeaderBytes: int64(s.MaxHeaderBytes),
		}
		f.transports[routes.HTTP].MaxIdleConns = maxIdleWithBody
	}
	return f
}

// dial connects to endpoints within the bounds of the namespace that is asked for.
func (f *forwarder) dial(with *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		namespace := ""
		if to := backendOf(ctx); to != nil {
			namespace = to.Payer
		}
		if !f.open.enter(namespace, netip.Addr{}, true) {
			return nil, errTooMany
		}
		leave := sync.OnceFunc(func() { f.open.leave(namespace, netip.Addr{}) })
		c, err := with.DialContext(ctx, network, address)
		if err != nil {
			leave()
			return nil, err
		}
		return &counted{Conn: c, leave: leave}, nil
	}
}

func (f *forwarder) close() {
	for _, t := range f.transports {
		t.CloseIdleConnections()
	}
	if f.direct != nil {
		f.direct.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. Another endpoint is tried only where that is
// safe, and nothing of the body was read.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	to := backendOf(r.Context())
	if to == nil {
		return nil, errNobody
	}
	transport := http.RoundTripper(f.transports[to.Scheme])
	if f.direct != nil && to.Scheme == routes.HTTP && direct.Plain(r) {
		transport = f.direct
	}
	sent := &kept{ReadCloser: r.Body}
	last := errNobody
	for _, endpoint := range to.Pick(attempts) {
		out := r.WithContext(r.Context())
		where := *r.URL
		where.Host = endpoint
		out.URL = &where
		if r.Body != nil {
			out.Body = sent
		}
		response, err := transport.RoundTrip(out)
		if err == nil {
			return response, nil
		}
		last = err
		if !repeatable(r, err) || sent.read.Load() || r.Context().Err() != nil {
			break
		}
		retries.Inc()
	}
	return nil, last
}

// repeatable reports whether another endpoint may be asked after an error: where no
// connection came about, or one broke that a request was sent by which changes nothing.
func repeatable(r *http.Request, err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return true
	}
	changes := r.Body != nil || r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
	return !changes && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
}

// kept is a body that outlives an attempt, and knows whether one began to read it.
type kept struct {
	io.ReadCloser
	read atomic.Bool
}

// Read implements io.Reader.
func (k *kept) Read(p []byte) (int, error) {
	k.read.Store(true)
	return k.ReadCloser.Read(p)
}

// Close leaves the body to the handler.
func (*kept) Close() error { return nil }

// rewrite makes of a client's request the one that a backend gets.
func (f *forwarder) rewrite(r *httputil.ProxyRequest) {
	out, in := r.Out, r.In
	out.URL.Scheme, out.URL.Host = "http", "backend"
	if to := backendOf(in.Context()); to != nil && to.Scheme == routes.HTTPS {
		out.URL.Scheme = "https"
	}
	out.URL.RawQuery = in.URL.RawQuery // what of it is sound is the backend's to say
	out.Host = in.Host
	for name := range out.Header {
		if speaksForClient(name) {
			delete(out.Header, name)
		}
	}
	if strings.EqualFold(out.Header.Get("Upgrade"), "h2c") {
		// Requests in such a connection would pass this proxy unseen.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
		out.Header.Del("Http2-Settings")
	}
	from, scheme, host := "", "http", in.Host
	if ap, err := netip.ParseAddrPort(in.RemoteAddr); err == nil {
		from = ap.Addr().Unmap().WithZone("").String()
	}
	if in.TLS != nil {
		scheme = "https"
	}
	forwarded, real := from, from
	if a, err := netip.ParseAddr(from); err == nil && f.settings.Trusts(a) {
		if before := strings.Join(in.Header.Values("X-Forwarded-For"), ", "); before != "" {
			forwarded = before + ", " + from
			real = f.client(before, from)
		}
		if p := in.Header.Get("X-Forwarded-Proto"); p == "http" || p == "https" {
			scheme = p
		}
		if h := in.Header.Get("X-Forwarded-Host"); h != "" {
			host = h
		}
	}
	out.Header.Set("X-Forwarded-For", forwarded)
	out.Header.Set("X-Real-Ip", real)
	out.Header.Set("X-Forwarded-Host", host)
	out.Header.Set("X-Forwarded-Proto", scheme)
	if c, ok := in.Context().Value(chosenOf{}).(*chosen); ok {
		c.change(out)
	}
}

// client is the last address of a list that is not that of a trusted proxy.
func (f *forwarder) client(list, from string) string {
	all := strings.Split(list, ",")
	for i := len(all) - 1; i >= 0; i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(all[i]))
		if err != nil {
			return from
		}
		if from = a.Unmap().String(); !f.settings.Trusts(a.Unmap()) {
			return from
		}
	}
	return from
}

// speaksForClient are headers by which backends know clients. Many of them read an
// underscore as a hyphen.
func speaksForClient(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-")
}

// statusOf is what a client is answered after an error.
func statusOf(err error) int {
	var large *http.MaxBytesError
	var timeout net.Error
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errNobody), errors.Is(err, errTooMany):
		return http.StatusServiceUnavailable
	case errors.Is(err, errTrickles):
		return http.StatusRequestTimeout
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
