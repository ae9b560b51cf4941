package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

const (
	// gateWait is how long a request above the rate is held up before it is
	// refused; gateRetry is what a refused client is told to wait, in seconds.
	gateWait, gateRetry = time.Second, "1"
	// gateRequests of one identity may be open at a time, watches among them.
	gateRequests = 4000
)

// Gate bounds what comes through one socket.
type Gate struct {
	// UID and GID are who may connect beside this process's user; 0 is nobody.
	UID, GID int

	// shut is the context whose end keeps requests out and cuts off those under way;
	// nil: none does.
	shut    atomic.Pointer[context.Context]
	limiter atomic.Pointer[rate.Limiter]
	denied  atomic.Pointer[func(what string)]
	open    atomic.Int64
}

// Set changes the rate, in requests a second, 0 is no bound; and who is told of
// requests that RBAC forbids, as "list secrets", which may be nil.
func (g *Gate) Set(callsPerSecond int, denied func(what string)) {
	if denied == nil {
		g.denied.Store(nil)
	} else {
		g.denied.Store(&denied)
	}
	switch l := g.limiter.Load(); {
	case callsPerSecond <= 0:
		g.limiter.Store(nil)
	case l == nil || l.Limit() != rate.Limit(callsPerSecond):
		g.limiter.Store(rate.NewLimiter(rate.Limit(callsPerSecond), callsPerSecond))
	}
}

// While lets requests pass until ctx ends, from now on; those under way are cut off
// then. What passed is bound by the context before. Without a call all pass.
func (g *Gate) While(ctx context.Context) { g.shut.Store(&ctx) }

// Open reports whether requests pass.
func (g *Gate) Open() bool {
	shut := g.shut.Load()
	return shut == nil || (*shut).Err() == nil
}

// forbiddenKey is where a request's context keeps that authorization forbade it.
type forbiddenKey struct{}

// notingForbidden is an authorizer that tells gates whom it forbids a request: other
// refusals with the code 403 are not about rights.
type notingForbidden struct{ authorizer.Authorizer }

// Authorize implements authorizer.Authorizer.
func (n notingForbidden) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := n.Authorizer.Authorize(ctx, a)
	if decision != authorizer.DecisionAllow {
		if forbidden, ok := ctx.Value(forbiddenKey{}).(*atomic.Bool); ok {
			forbidden.Store(true)
		}
	}
	return decision, reason, err
}

var requestInfos = request.RequestInfoFactory{
	APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
}

func (g *Gate) serve(next http.Handler, w http.ResponseWriter, req *http.Request) {
	defer g.open.Add(-1)
	if g.open.Add(1) > gateRequests || !g.pass(req.Context()) {
		w.Header().Set("Retry-After", gateRetry)
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		return
	}
	if shut := g.shut.Load(); shut != nil {
		if !g.Open() {
			w.Header().Set("Retry-After", gateRetry)
			http.Error(w, "another kernel leads: this plugin writes nothing until its own does", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(*shut, cancel)()
		req = req.WithContext(ctx)
	}
	denied := g.denied.Load()
	if denied == nil {
		next.ServeHTTP(w, req)
		return
	}
	seen, forbidden := &statusWriter{ResponseWriter: w}, new(atomic.Bool)
	req = req.WithContext(context.WithValue(req.Context(), forbiddenKey{}, forbidden))
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(seen), req)
	if seen.code == http.StatusForbidden && forbidden.Load() {
		what := req.Method + " " + req.URL.Path
		if info, err := requestInfos.NewRequestInfo(req); err == nil && info.IsResourceRequest {
			what = info.Verb + " " + info.Resource
			if info.Subresource != "" {
				what += "/" + info.Subresource
			}
		}
		(*denied)(what)
	}
}

// Bound lets requests to a handler that is not the API server's own pass as those of a socket do:
// so many at once, at the gate's rate.
func (g *Gate) Bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { g.serve(next, w, req) })
}

// pass waits for its turn, for a moment.
func (g *Gate) pass(ctx context.Context) bool {
	l := g.limiter.Load()
	if l == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	return l.Wait(ctx) == nil
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	code int
}

var _ responsewriter.UserProvidedDecorator = (*statusWriter)(nil)

func (s *statusWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *statusWriter) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}
