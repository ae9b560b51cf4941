package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/plugins/ingress/routes"
	"pintle.dev/pintle/plugins/ingress/settings"
)

// drains is how long requests under way may take after the end was asked for.
const drains = 5 * time.Second

// Proxy forwards requests by a table.
type Proxy struct {
	settings    settings.Settings
	certificate func(routes.SecretName) *tls.Certificate // nil: there is none
	own         *tls.Certificate
	log         *slog.Logger
	table       atomic.Pointer[routes.Table]
	gate        *gate
	budget      *budget
	forwarder   *forwarder
	reverse     *httputil.ReverseProxy

	servers   []*http.Server
	listeners []net.Listener
	httpsPort int // the first one; 0: none
	drains    time.Duration
}

// New makes a proxy that forwards nothing yet. certificate returns that of a Secret, or
// nil; own is for connections without one.
func New(s settings.Settings, certificate func(routes.SecretName) *tls.Certificate, own *tls.Certificate, log *slog.Logger) *Proxy {
	p := &Proxy{settings: s, certificate: certificate, own: own, log: log, drains: drains}
	p.gate = newGate(s.MaxConnections, s.MaxConnectionsPerClient)
	p.budget = newBudget(s.MaxRequests, s.MaxRequestsPerNamespace, s.MaxRequestsPerClient)
	p.forwarder = newForwarder(&p.settings)
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.forwarder.rewrite, Transport: p.forwarder, ErrorHandler: p.failed, ModifyResponse: answered,
		BufferPool: &buffers{}, ErrorLog: log0(slog.LevelDebug, p.log),
	}
	return p
}

// Use puts a table into force.
func (p *Proxy) Use(t *routes.Table) { p.table.Store(t) }

// Listen opens the listeners of the settings. An error names the address; none is open then.
func (p *Proxy) Listen(ctx context.Context) error {
	open := func(address string, secure bool) error {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			for _, other := range p.listeners {
				other.Close()
			}
			p.listeners, p.servers = nil, nil
			return fmt.Errorf("listen at %s: %w; free the port, name another in httpAddresses or httpsAddresses, or grant the bundle lowPorts: true where it is below 1024", address, err)
		}
		if at, ok := l.Addr().(*net.TCPAddr); secure && ok && p.httpsPort == 0 {
			p.httpsPort = at.Port
		}
		p.listeners, p.servers = append(p.listeners, l), append(p.servers, p.server(secure))
		return nil
	}
	for _, a := range p.settings.HTTPAddresses {
		if err := open(a, false); err != nil {
			return err
		}
	}
	for _, a := range p.settings.HTTPSAddresses {
		if err := open(a, true); err != nil {
			return err
		}
	}
	return nil
}

// Addresses are those that are listened at: of HTTP first, each in the order of the settings.
func (p *Proxy) Addresses() []net.Addr {
	var out []net.Addr
	for _, l := range p.listeners {
		out = append(out, l.Addr())
	}
	return out
}

func (p *Proxy) server(secure bool) *http.Server {
	s := &http.Server{
		Handler:           http.HandlerFunc(p.handle),
		ReadHeaderTimeout: p.settings.HeaderTimeout.Duration,
		IdleTimeout:       p.settings.IdleTimeout.Duration,
		MaxHeaderBytes:    p.settings.MaxHeaderBytes,
		// OPTIONS * is about no host.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log0(slog.LevelDebug, p.log),
		Protocols:                    new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 100, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
			WriteByteTimeout:          p.settings.ClientTimeout.Duration,
			MaxReceiveBufferPerStream: 64 << 10, MaxReceiveBufferPerConnection: 256 << 10,
		},
	}
	s.Protocols.SetHTTP1(true)
	if secure {
		s.Protocols.SetHTTP2(true)
		s.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.choose}
	} else {
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	return s
}

// choose returns the certificate of the host that a client names.
func (p *Proxy) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	t := p.table.Load()
	if t == nil {
		return p.own, nil
	}
	port := 0
	if hello.Conn != nil {
		if at, ok := hello.Conn.LocalAddr().(*net.TCPAddr); ok {
			port = at.Port
		}
	}
	host := hostOf(hello.ServerName)
	names, _ := t.Certificates(port, host)
	var first *tls.Certificate
	for _, name := range names {
		c := p.certificate(name)
		if c == nil {
			continue
		}
		if len(names) == 1 || hello.SupportsCertificate(c) == nil {
			return c, nil
		}
		if first == nil {
			first = c
		}
	}
	if first != nil {
		return first, nil
	}
	return p.own, nil
}

// Run serves what Listen opened until ctx ends, and then lets requests come to their end.
func (p *Proxy) Run(ctx context.Context) error {
	// Not that of ctx: requests outlive its end for a while.
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var wg sync.WaitGroup
	ended := make(chan error, len(p.servers))
	for i, s := range p.servers {
		s.BaseContext = func(net.Listener) context.Context { return base }
		wg.Go(func() {
			l, err := p.gate.listener(p.listeners[i], p.settings.Trusts), error(nil)
			if s.TLSConfig != nil {
				err = s.ServeTLS(l, "", "")
			} else {
				err = s.Serve(l)
			}
			if !errors.Is(err, http.ErrServerClosed) {
				ended <- fmt.Errorf("serve at %s: %w", l.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	grace, cancel := context.WithTimeout(base, p.drains)
	defer cancel()
	var closing sync.WaitGroup
	for _, s := range p.servers {
		closing.Go(func() {
			if s.Shutdown(grace) != nil {
				_ = s.Close()
			}
		})
	}
	closing.Wait()
	cut() // those that were upgraded
	p.gate.closeAll()
	wg.Wait()
	late := time.NewTimer(p.drains)
	defer late.Stop()
	select {
	case <-p.budget.end():
	case <-late.C:
		err = errors.Join(err, errors.New("requests go on though their connections are closed"))
	}
	p.forwarder.close()
	return err
}

// buffers are those of answers on their way.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }

// log0 is a log for net/http, whose lines clients cause.
func log0(level slog.Level, to *slog.Logger) *log.Logger {
	if to == nil {
		return log.New(io.Discard, "", 0)
	}
	return slog.NewLogLogger(to.Handler(), level)
}
