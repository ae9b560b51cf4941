package generic

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"

	"pintle.dev/pintle/sdk/apiserver"
)

// Configure makes a server of k8s.io/apiserver one that the kernel speaks to: a user is
// who the kernel says, who authorized the request already; client and informers have
// the plugin's identity. A server that wants to ask for rights of its own sets
// Authorization behind it.
func Configure(c *apiserver.Context, config *genericapiserver.RecommendedConfig) {
	config.ClientConfig = c.RESTConfig
	config.LoopbackClientConfig = c.RESTConfig
	config.SharedInformerFactory = informers.NewSharedInformerFactory(c.Client, 0)
	config.Authentication.Authenticator = Authenticator()
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	config.SecureServing = nil
}

// Authenticator believes the kernel, who alone can connect.
func Authenticator() authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		u, ok := apiserver.UserOf(req.Context())
		if !ok {
			return nil, false, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}}, true, nil
	})
}

// Instance is what serves a server that was made by a configuration that Configure had.
func Instance(server *genericapiserver.GenericAPIServer) apiserver.Instance {
	// A server without a listener does not run, nor end, in order. It has one that
	// nobody can connect to.
	server.SecureServingInfo = &genericapiserver.SecureServingInfo{Listener: newNowhere(), MinTLSVersion: tls.VersionTLS13}
	prepared := server.PrepareRun()
	return apiserver.Instance{
		Handler: server.Handler,
		Run: func(ctx context.Context) error {
			if err := prepared.RunWithContext(ctx); err != nil {
				return fmt.Errorf("API server: %w", err)
			}
			return nil
		},
	}
}

// nowhere is a listener that nobody can connect to.
type nowhere struct {
	closed chan struct{}
	once   sync.Once
}

func newNowhere() *nowhere { return &nowhere{closed: make(chan struct{})} }

// Accept implements net.Listener.
func (n *nowhere) Accept() (net.Conn, error) {
	<-n.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (n *nowhere) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements net.Listener.
func (n *nowhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
