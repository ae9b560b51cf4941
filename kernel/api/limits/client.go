package limits

import (
	"fmt"
	"net"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Refuse answers a request with an error.
type Refuse func(w http.ResponseWriter, req *http.Request, err error)

// retryAfter is what a refused client is told to wait, in seconds.
const retryAfter = 1

func tooMany(format string, args ...any) error {
	return apierrors.NewTooManyRequests(fmt.Sprintf(format, args...), retryAfter)
}

// client is whom a request counts for.
type client struct {
	name       string
	anonymous  bool
	privileged bool
}

func clientOf(req *http.Request) client {
	u, ok := request.UserFrom(req.Context())
	if !ok || u.GetName() == user.Anonymous {
		return client{name: user.Anonymous + " of " + sourceOf(req.RemoteAddr), anonymous: true}
	}
	return client{name: u.GetName(), privileged: slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)}
}

// sourceOf is the address without the port.
func sourceOf(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	return host
}
