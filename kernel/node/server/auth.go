package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/revocation"
)

// How long answers of the API are believed, and how many are kept: a token ends with
// its account, and a right with its binding. Who reads metrics every some seconds asks
// the API once in that time.
const (
	answerFor  = 10 * time.Second
	maxAnswers = 1024
	// mastersGroup is allowed everything, as everywhere in Kubernetes.
	mastersGroup = "system:masters"
)

// How many tokens that the API has not accepted before it is asked about: of one
// source address, and of all. The rest is told to come again.
const (
	askPerSource, askBurst  = rate.Limit(2), 20
	askInAll, askInAllBurst = rate.Limit(20), 100
	maxSources              = 1024
)

type identity struct {
	name   string
	uid    string
	groups []string
	extra  map[string]authenticationv1.ExtraValue
}

// answers is a small cache of what the API said. The least recently used go first.
type answers[T any] struct{ kept *lru.Cache }

type answer[T any] struct {
	value T
	until time.Time
}

func newAnswers[T any]() answers[T] { return answers[T]{lru.New(maxAnswers)} }

// get gives an answer, and whether it is still believed.
func (a *answers[T]) get(key string, now time.Time) (value T, known, fresh bool) {
	v, ok := a.kept.Get(key)
	if !ok {
		return value, false, false
	}
	kept := v.(answer[T])
	return kept.value, true, now.Before(kept.until)
}

func (a *answers[T]) put(key string, value T, now time.Time) {
	a.kept.Add(key, answer[T]{value, now.Add(answerFor)})
}

// gate authenticates and authorizes.
type gate struct {
	client     client.Interface
	node       string
	apiClients []string
	revoked    *revocation.Guard // nil: no certificate is
	now        func() time.Time

	// Tokens that were refused have a place of their own: they drive out none
	// that were accepted.
	tokens    answers[identity]
	refused   answers[struct{}]
	decisions answers[bool]

	all       *rate.Limiter
	sourcesMu sync.Mutex
	sources   *lru.Cache // *rate.Limiter of a source address
}

func newGate(cfg Config, c client.Interface) *gate {
	return &gate{
		client: c, node: cfg.NodeName, apiClients: cfg.APIClients, revoked: cfg.Revoked, now: time.Now,
		tokens: newAnswers[identity](), refused: newAnswers[struct{}](), decisions: newAnswers[bool](),
		all: rate.NewLimiter(askInAll, askInAllBurst), sources: lru.New(maxSources),
	}
}

// mayAsk says whether the API is asked about another token of a source.
func (g *gate) mayAsk(r *http.Request, now time.Time) bool {
	source, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		source = r.RemoteAddr
	}
	g.sourcesMu.Lock()
	l, ok := g.sources.Get(source)
	if !ok {
		l = rate.NewLimiter(askPerSource, askBurst)
		g.sources.Add(source, l)
	}
	g.sourcesMu.Unlock()
	// One that has none left takes none from the others.
	return l.(*rate.Limiter).AllowN(now, 1) && g.all.AllowN(now, 1)
}

// authenticate finds who asks: the verified client certificate, or a bearer token that
// the API accepts. What it returns beside is the status of who is not known.
func (g *gate) authenticate(ctx context.Context, r *http.Request) (identity, int) {
	if g.revoked != nil && g.revoked.Check(r) != nil {
		return identity{}, http.StatusUnauthorized
	}
	// The certificate was verified against the client CA by the TLS handshake, and may have ended since.
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(r.TLS.PeerCertificates) > 0 {
		cert := r.TLS.PeerCertificates[0]
		if cert.Subject.CommonName == "" || g.now().After(cert.NotAfter) {
			return identity{}, http.StatusUnauthorized
		}
		return identity{name: cert.Subject.CommonName, groups: cert.Subject.Organization}, 0
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return identity{}, http.StatusUnauthorized
	}
	now := g.now()
	key := fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
	id, known, fresh := g.tokens.get(key, now)
	if fresh {
		return id, 0
	}
	if _, _, fresh := g.refused.get(key, now); fresh {
		return identity{}, http.StatusUnauthorized
	}
	if !known && !g.mayAsk(r, now) {
		return identity{}, http.StatusTooManyRequests
	}
	review, err := g.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return identity{}, http.StatusUnauthorized
	}
	user := review.Status.User
	if !review.Status.Authenticated || user.Username == "" {
		g.tokens.kept.Remove(key)
		g.refused.put(key, struct{}{}, now)
		return identity{}, http.StatusUnauthorized
	}
	id = identity{name: user.Username, uid: user.UID, groups: user.Groups, extra: user.Extra}
	g.tokens.put(key, id, now)
	return id, 0
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
		now := g.now()
		allowed, _, fresh := g.decisions.get(key, now)
		if !fresh {
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
			g.decisions.put(key, allowed, now)
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
		id, refused := g.authenticate(r.Context(), r)
		if refused != 0 {
			if refused == http.StatusTooManyRequests {
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, http.StatusText(refused), refused)
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
