package apiserver

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// Headers of a request by which the kernel says whose it is, as those of Kubernetes'
// front proxy.
const (
	headerUser  = "X-Remote-User"
	headerUID   = "X-Remote-Uid"
	headerGroup = "X-Remote-Group"
	headerExtra = "X-Remote-Extra-"
)

// User is who asks.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

type userKey struct{}

// UserOf is the user of a request that the kernel sent, by the request's context.
func UserOf(ctx context.Context) (User, bool) {
	u, ok := ctx.Value(userKey{}).(User)
	return u, ok
}

// identified reads the kernel's word of who asks. A request without one is refused.
func identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u := User{Name: req.Header.Get(headerUser), UID: req.Header.Get(headerUID), Groups: req.Header.Values(headerGroup)}
		if u.Name == "" {
			http.Error(w, "the request does not say whose it is: "+headerUser+" is missing", http.StatusUnauthorized)
			return
		}
		for name, values := range req.Header {
			if len(name) <= len(headerExtra) || !strings.EqualFold(name[:len(headerExtra)], headerExtra) {
				continue
			}
			key := strings.ToLower(name[len(headerExtra):])
			if plain, err := url.PathUnescape(key); err == nil {
				key = plain
			}
			if u.Extra == nil {
				u.Extra = map[string][]string{}
			}
			u.Extra[key] = append(u.Extra[key], values...)
		}
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), userKey{}, u)))
	})
}
