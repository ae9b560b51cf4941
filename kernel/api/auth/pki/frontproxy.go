package pki

import (
	"cmp"
	"fmt"
)

const (
	// frontProxyDirectory has an authority of its own: who holds a certificate of it
	// may say who somebody is, and a client of the cluster must never.
	frontProxyDirectory = "front-proxy"
	// frontProxyAuthority is the name of its CA.
	frontProxyAuthority = "front-proxy-ca"
	// FrontProxyName is the common name of the front proxy's certificate.
	FrontProxyName = "front-proxy-client"
)

// FrontProxy is what the kernel shows to the API servers that it sends requests to.
type FrontProxy struct {
	p      *PKI
	client *Leaf
}

// FrontProxy opens the front proxy's directory, and makes what it lacks. It is opened
// once; Renew renews it from then on.
func (p *PKI) FrontProxy() (*FrontProxy, error) {
	p.leavesMu.Lock()
	defer p.leavesMu.Unlock()
	if p.front != nil {
		return p.front, nil
	}
	own, err := openAuthority(Config{Dir: p.path(frontProxyDirectory), Now: p.cfg.Now, authority: frontProxyAuthority})
	if err != nil {
		return nil, fmt.Errorf("front proxy: %w", err)
	}
	client, err := own.clientLeaf(FrontProxyName, FrontProxyName)
	if err != nil {
		return nil, fmt.Errorf("front proxy: %w", err)
	}
	p.front = &FrontProxy{p: own, client: client}
	return p.front, nil
}

// openedFrontProxy is nil while nobody has asked for it.
func (p *PKI) openedFrontProxy() *FrontProxy {
	p.leavesMu.Lock()
	defer p.leavesMu.Unlock()
	return p.front
}

// CAPEM is the certificate of its authority.
func (f *FrontProxy) CAPEM() []byte { return f.p.caPEM }

// Client is its certificate.
func (f *FrontProxy) Client() *Leaf { return f.client }

func (p *PKI) authorityName() string { return cmp.Or(p.cfg.authority, "kubernetes") }

// authorityFile is what the CA is called among the certificates.
func (p *PKI) authorityFile() string {
	if p.cfg.authority != "" {
		return p.cfg.authority
	}
	return "ca"
}
