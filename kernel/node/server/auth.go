package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/node/client"
)

// How long answers of the API are believed, and how many are kept.
const (
	allowFor   = 5 * time.Minute
	denyFor    = 30 * time.Second
	tokenFor   = 2 * time.Minute
	maxAnswers = 1024
	// mastersGroup is allowed everything, as everywhere in Kubernetes.
	mastersGroup = "system:masters"
)

type identity struct {
	name   string
	uid    string
	groups []string
	extra  map[string]authenticationv1.ExtraValue
}

// answers is a small cache of what the API said.
type answers[T any] struct {
	mu   sync.Mutex
	kept map[string]answer[T]
}

type answer[T any] struct {
	value T
	until time.Time
}

func (a *answers[T]) get(key string, now time.Time) (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, ok := a.kept[key]
	if !ok || now.After(v.until) {
		var none T
		return none, false
	}
	return v.value, true
}

func (a *answers[T]) put(key string, value T, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil || len(a.kept) >= maxAnswers {
		a.kept = map[string]answer[T]{}
	}
	a.kept[key] = answer[T]{value, until}
}

// gate authenticates and authorizes.
type gate struct {
	client     client.Interface
	node       string
	apiClients []string
	tokens     answers[identity]
	decisions  answers[bool]
}

// authenticate finds who asks: the verified client certificate, or a bearer token that the API accepts.
func (g *gate) authenticate(ctx context.Context, r *http.Request) (identity, bool) {
	// The certificate was verified against the client CA by the TLS handshake.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.PeerCertificates) > 0 {
		subject := r.TLS.PeerCertificates[0].Subject
		return identity{name: subject.CommonName, groups: subject.Organization}, subject.CommonName != ""
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return identity{}, false
	}
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	if id, ok := g.tokens.get(key, time.Now()); ok {
		return id, id.name != ""
	}
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return identity{}, false
	}
	id := identity{}
	if review.Status.Authenticated {
		id = identity{name: review.Status.User.Username, uid: review.Status.User.UID, groups: review.Status.User.Groups, extra: review.Status.User.Extra}
	}
	g.tokens.put(key, id, time.Now().Add(tokenFor))
	return id, id.name != ""
}

// subresources are the node subresources that allow a path; any one of them is enough.
func subresources(path string) []string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "stats":
		return []string{"stats"}
	case "metrics":
		return []string{"metrics"}
	case "logs":
		return []string{"log"}
	case "pods", "runningpods":
		return []string{"pods", "proxy"}
	case "healthz":
		return []string{"healthz", "proxy"}
	case "configz":
		return []string{"configz", "proxy"}
	}
	return []string{"proxy"}
}

func verb(method string) string {
	switch method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return "get"
}

// streams are the first parts of paths that run something in a container or
// reach its ports.
var streams = []string{"exec", "attach", "portForward", "run", "cri"}

// needed is the verb that a request needs. A WebSocket asks by GET, and the right
// to read pages must not be one to run commands.
func needed(r *http.Request) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/"), "/")
	if slices.Contains(streams, first) || r.Header.Get("Upgrade") != "" {
		return "create"
	}
	return verb(r.Method)
}

// authorize asks whether id may do this; nothing is allowed that nobody allowed.
func (g *gate) authorize(ctx context.Context, id identity, r *http.Request) (bool, error) {
	if slices.Contains(g.apiClients, id.name) || slices.Contains(id.groups, mastersGroup) {
		return true, nil
	}
	for _, sub := range subresources(r.URL.Path) {
		key := strings.Join(append([]string{id.name, id.uid, needed(r), sub}, id.groups...), "\x00")
		allowed, known := g.decisions.get(key, time.Now())
		if !known {
			extra := map[string]authorizationv1.ExtraValue{}
			for k, v := range id.extra {
				extra[k] = authorizationv1.ExtraValue(v)
			}
			review, err := g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: id.name, UID: id.uid, Groups: id.groups, Extra: extra,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: needed(r), Version: "v1", Resource: "nodes", Subresource: sub, Name: g.node},
			}}, metav1.CreateOptions{})
			if err != nil {
				return false, err
			}
			allowed = review.Status.Allowed && !review.Status.Denied
			keep := denyFor
			if allowed {
				keep = allowFor
			}
			g.decisions.put(key, allowed, time.Now().Add(keep))
		}
		if allowed {
			return true, nil
		}
	}
	return false, nil
}

// wrap lets only allowed requests through.
func (g *gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, ok := g.authenticate(r.Context(), r)
		if !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		sub := subresources(r.URL.Path)
		allowed, err := g.authorize(r.Context(), id, r)
		if err != nil {
			http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", id.name, needed(r), sub[0]), http.StatusInternalServerError)
			return
		}
		if !allowed {
			http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)\n", id.name, needed(r), sub), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
