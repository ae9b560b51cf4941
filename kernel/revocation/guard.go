package revocation

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

// Guard holds the list in force. Safe for concurrent use.
type Guard struct {
	list atomic.Pointer[List]
	mu   sync.Mutex // held while the list changes
	open sync.Map   // remote address to *connection
}

// NewGuard makes a guard with a list.
func NewGuard(l *List) *Guard {
	g := &Guard{}
	g.list.Store(l)
	return g
}

// List is the one in force.
func (g *Guard) List() *List { return g.list.Load() }

// Add puts a list in force beside what is, and cuts the connections of those who
// showed a certificate that is on it now. grown says whether there is such.
func (g *Guard) Add(l *List) (grown bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	union, grown := g.list.Load().Union(l)
	g.list.Store(union)
	if !grown {
		return false
	}
	g.open.Range(func(_, value any) bool {
		if c := value.(*connection); union.refuse(c.shown()) != nil {
			_ = c.Close()
		}
		return true
	})
	return true
}

// RevokedError is the refusal of who shows a revoked certificate.
type RevokedError struct{ Certificate *x509.Certificate }

func (e *RevokedError) Error() string {
	return fmt.Sprintf("the certificate of %q with serial number %x has been revoked", e.Certificate.Subject.CommonName, e.Certificate.SerialNumber)
}

func (l *List) refuse(shown []*x509.Certificate) error {
	for _, c := range shown {
		if l.Revoked(c) {
			return &RevokedError{c}
		}
	}
	return nil
}

// Check returns a *RevokedError where a request came with a revoked certificate,
// whatever else it came with.
func (g *Guard) Check(req *http.Request) error {
	if req.TLS == nil || len(req.TLS.PeerCertificates) == 0 {
		return nil
	}
	// Noted first: who is not refused below is cut by the list that comes next.
	if value, ok := g.open.Load(req.RemoteAddr); ok {
		if c := value.(*connection); c.certs.Load() == nil {
			c.note(req.TLS.PeerCertificates)
		}
	}
	return g.list.Load().refuse(req.TLS.PeerCertificates)
}

// Verify is for the tls.Config of a client: it refuses servers with a revoked certificate.
func (g *Guard) Verify(state tls.ConnectionState) error {
	return g.list.Load().refuse(state.PeerCertificates)
}

// Authenticator refuses revoked certificates before another way to authenticate
// is asked.
func (g *Guard) Authenticator(inner authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		if err := g.Check(req); err != nil {
			return nil, false, err
		}
		return inner.AuthenticateRequest(req)
	})
}

// Listener knows the connections of another one, so that they can be cut.
func (g *Guard) Listener(inner net.Listener) net.Listener { return &listener{inner, g} }

type listener struct {
	net.Listener
	guard *Guard
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: inner, guard: l.guard, remote: inner.RemoteAddr().String()}
	l.guard.open.Store(c.remote, c)
	return c, nil
}

type connection struct {
	net.Conn
	guard  *Guard
	remote string
	certs  atomic.Pointer[[]*x509.Certificate] // what was shown on it
}

func (c *connection) note(certs []*x509.Certificate) { c.certs.Store(&certs) }

func (c *connection) shown() []*x509.Certificate {
	if certs := c.certs.Load(); certs != nil {
		return *certs
	}
	return nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.guard.open.CompareAndDelete(c.remote, c)
	return c.Conn.Close()
}
