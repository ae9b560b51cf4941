package authentication

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// reservedPrefix is what users and groups of the kernel's plugins begin with.
const reservedPrefix = "system:pintle:"

// checkReserved refuses identities that only the kernel's own sockets stand for.
func checkReserved(u user.Info) error {
	if strings.HasPrefix(u.GetName(), reservedPrefix) {
		return fmt.Errorf("user %q is one of the kernel's own, which no credential stands for", u.GetName())
	}
	for _, g := range u.GetGroups() {
		if strings.HasPrefix(g, reservedPrefix) {
			return fmt.Errorf("group %q of user %q is one of the kernel's own, which no credential stands for", g, u.GetName())
		}
	}
	return nil
}

// unreserved is a way that gives no reserved identity.
func unreserved(way authenticator.Request) authenticator.Request {
	return authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		res, ok, err := way.AuthenticateRequest(req)
		if err != nil || !ok {
			return nil, false, err
		}
		if err := checkReserved(res.User); err != nil {
			return nil, false, err
		}
		return res, true, nil
	})
}
