package api

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// identityKey marks a request's context with the identity that its way in
// (in-process transport, unix socket) stands for. Only this package can set
// it; nothing that comes over the network does.
type identityKey struct{}

// socketKey marks a request that came by a unix socket.
type socketKey struct{}

func withIdentity(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, identityKey{}, u)
}

// standsFor tells requests that came in with one of the identities, and act as it:
// not those of others who are called so, nor those of who impersonates it.
func standsFor(names ...string) func(ctx context.Context, u user.Info) bool {
	return func(ctx context.Context, u user.Info) bool {
		in, ok := ctx.Value(identityKey{}).(user.Info)
		return ok && u != nil && u.GetName() == in.GetName() && slices.Contains(names, u.GetName())
	}
}

// isKernelPart tells requests that the kernel makes in its own process, and not those
// of plugins, which come by sockets.
func isKernelPart(ctx context.Context, u user.Info) bool {
	in, ok := ctx.Value(identityKey{}).(user.Info)
	return ok && u != nil && u.GetName() == in.GetName() && ctx.Value(socketKey{}) == nil
}

// hasIdentity says whether a request came by a way that is a credential.
func hasIdentity(ctx context.Context) bool { return ctx.Value(identityKey{}) != nil }

// authenticateIdentity accepts requests whose context carries an identity.
func authenticateIdentity(req *http.Request) (*authenticator.Response, bool, error) {
	u, ok := req.Context().Value(identityKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

// authenticated adds system:authenticated to the groups of a fixed identity,
// as the group adder does for credentials on the wire.
func authenticated(u user.Info) user.Info {
	for _, g := range u.GetGroups() {
		if g == user.AllAuthenticated || g == user.AllUnauthenticated {
			return u
		}
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(append([]string(nil), u.GetGroups()...), user.AllAuthenticated),
	}
}
