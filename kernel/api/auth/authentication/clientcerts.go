package authentication

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/user"
)

// maxKnownCerts bounds the client certificates remembered; beyond it they are
// forgotten all at once, which costs one verification each.
const maxKnownCerts = 4096

// clientCerts authenticates by client certificate and remembers those that
// verified: other roots get another one, so that only the certificate's own dates
// can end what was found. A verification costs as much
// as a fifth of a pod's create.
type clientCerts struct {
	verify authenticator.Request
	now    func() time.Time

	mu    sync.RWMutex
	known map[[sha256.Size]byte]knownCert
}

type knownCert struct {
	user  user.Info
	until time.Time
}

func newClientCerts(options x509.VerifyOptions) *clientCerts {
	return &clientCerts{
		verify: requestx509.New(options, requestx509.CommonNameUserConversion),
		now:    time.Now,
		known:  map[[sha256.Size]byte]knownCert{},
	}
}

// AuthenticateRequest implements authenticator.Request.
func (c *clientCerts) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	// A chain with intermediates is rare; those are verified each time.
	if req.TLS == nil || len(req.TLS.PeerCertificates) != 1 {
		return c.verify.AuthenticateRequest(req)
	}
	leaf := req.TLS.PeerCertificates[0]
	key := sha256.Sum256(leaf.Raw)
	c.mu.RLock()
	have, ok := c.known[key]
	c.mu.RUnlock()
	if ok && c.now().Before(have.until) {
		return &authenticator.Response{User: have.user}, true, nil
	}
	res, ok, err := c.verify.AuthenticateRequest(req)
	if err != nil || !ok {
		return res, ok, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxKnownCerts {
		clear(c.known)
	}
	c.known[key] = knownCert{user: res.User, until: leaf.NotAfter}
	return res, ok, nil
}
