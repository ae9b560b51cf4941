package api

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/sets"
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

	limiter atomic.Pointer[rate.Limiter]
	denied  atomic.Pointer[func(what string)]
	open    atomic.Int64
}

// Set changes the rate, in requests a second, 0 is no bound; and who is told of
// requests that are forbidden, as "list secrets", which may be nil.
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
	denied := g.denied.Load()
	if denied == nil {
		next.ServeHTTP(w, req)
		return
	}
	seen := &statusWriter{ResponseWriter: w}
	next.ServeHTTP(responsewriter.WrapForHTTP1Or2(seen), req)
	if seen.code == http.StatusForbidden {
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
