package authentication

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"pintle.dev/pintle/kernel/secretfile"
)

// authorityFile follows a PEM file of authorities. A private key has no business in it.
func authorityFile(purpose, file string) (*dynamiccertificates.DynamicFileCAContent, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%s: holds a %s; want the certificates of authorities alone", file, block.Type)
		}
	}
	if err := secretfile.ClosedToWriters(file); err != nil {
		return nil, err
	}
	return dynamiccertificates.NewDynamicCAContentFromFile(purpose, file)
}

// authority authenticates by client certificates of one file of authorities, as it is
// now. What verified under another content is forgotten with it.
type authority struct {
	content *dynamiccertificates.DynamicFileCAContent
	now     atomic.Pointer[clientCerts] // nil: the file has none
}

func newAuthority(content *dynamiccertificates.DynamicFileCAContent) *authority {
	a := &authority{content: content}
	a.Enqueue()
	content.AddListener(a)
	return a
}

// Enqueue implements dynamiccertificates.Listener: the file has another content.
func (a *authority) Enqueue() {
	if options, ok := a.content.VerifyOptions(); ok {
		a.now.Store(newClientCerts(options))
	} else {
		a.now.Store(nil)
	}
}

// AuthenticateRequest implements authenticator.Request.
func (a *authority) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	now := a.now.Load()
	if now == nil {
		return nil, false, nil
	}
	return now.AuthenticateRequest(req)
}
