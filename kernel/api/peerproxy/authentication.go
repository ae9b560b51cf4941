package peerproxy

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	upstream "k8s.io/apiserver/pkg/util/peerproxy"
)

// authority reads the one certificate of a PEM text.
func authority(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is no certificate in PEM")
	}
	if more, _ := pem.Decode(rest); more != nil {
		return nil, errors.New("want one certificate, found several")
	}
	ca, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	if !ca.IsCA {
		return nil, errors.New("the certificate is not that of an authority")
	}
	return ca, nil
}

// Authenticator believes kernels of the cluster who a request is from, and asks next
// about all others. Name is the common name of the kernels' certificates.
func (m *Members) Authenticator(next authenticator.Request, audiences authenticator.Audiences, name string) authenticator.Request {
	one := func(s string) headerrequest.StringSliceProvider { return headerrequest.StaticStringSlice{s} }
	headers := authenticator.WrapAudienceAgnosticRequest(audiences, headerrequest.NewDynamicVerifyOptionsSecure(
		m.verify, one(name), one("X-Remote-User"), one("X-Remote-Uid"), one("X-Remote-Group"), one("X-Remote-Extra-")))
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		// Others may send the header: it has their request served here or not at all.
		if req.Header.Get(upstream.PeerProxiedHeader) == "" || req.TLS == nil || len(req.TLS.PeerCertificates) == 0 || req.TLS.PeerCertificates[0].Subject.CommonName != name {
			return next.AuthenticateRequest(req)
		}
		if !m.signed(req.TLS.PeerCertificates[0]) {
			// Perhaps one that has just started. Its error is that of who is not known.
			if err := m.refresh(req.Context(), rereadAfter); err != nil {
				m.log.Warn("an API server that is not known is not looked for in the store", "error", err)
			}
			if !m.signed(req.TLS.PeerCertificates[0]) {
				return next.AuthenticateRequest(req)
			}
		}
		res, ok, err := headers.AuthenticateRequest(req)
		if err == nil && !ok {
			err = errors.New("an API server of the cluster does not say who the request is from")
		}
		return res, ok, err
	})
}

func (m *Members) signed(cert *x509.Certificate) bool {
	options, ok := m.verify()
	if !ok {
		return false
	}
	_, err := cert.Verify(options)
	return err == nil
}

// verify is how certificates of kernels are verified: not at all while there are no others.
func (m *Members) verify() (x509.VerifyOptions, bool) {
	pool := m.authorities()
	return x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, pool != nil
}
