package token

import (
	"crypto/x509"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	requestx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
)

// NewRequestAuthenticator joins the ways to say who one is, in upstream's
// order: client certificate of clientCA (user = common name, groups =
// organizations), bearer token, token in a WebSocket subprotocol. Who shows
// one gets the group system:authenticated; who shows none is
// system:anonymous, which RBAC then allows next to nothing; who shows a wrong
// one is refused. first are tried before all these (ways in that stand for an
// identity by themselves). The first of tokens is normally the Authenticator of this
// package, others may follow.
//
// Results are not cached: a lookup costs one ECDSA verification (about 60 µs)
// and map reads, and a cache would let a deleted pod's token live on.
func NewRequestAuthenticator(clientCA *x509.CertPool, first []authenticator.Request, tokens ...authenticator.Token) authenticator.Request {
	options := requestx509.DefaultVerifyOptions()
	options.Roots = clientCA
	ways := append(append([]authenticator.Request(nil), first...),
		requestx509.New(options, requestx509.CommonNameUserConversion))
	if len(tokens) > 0 {
		all := tokenunion.New(tokens...)
		ways = append(ways, bearertoken.New(all), websocket.NewProtocolAuthenticator(all))
	}
	known := group.NewAuthenticatedGroupAdder(union.New(ways...))
	return union.NewFailOnError(known, anonymous.NewAuthenticator(nil))
}
