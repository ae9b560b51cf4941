package apiservers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// wakeFor bounds how long a request waits for the process of a server that rests.
	wakeFor = 30 * time.Second
	// mostWaiting is how many requests wait for one server at a time.
	mostWaiting = 500
)

// rest is of a server whose process ended because nothing used it.
type rest struct {
	own     func(process any) bool // tells the processes of the same build
	wake    func()                 // has one started
	waiting atomic.Int32           // requests
}

// Rest says that the process behind servers ends, if none of them had a request for so
// long, and reports whether that is so. own tells the processes of the build that says so:
// servers of another one do not rest. From then on they are there all the same: what the
// kernel asks about them is answered as the process last did, and another request calls
// wake and waits until Up has a new process. wake must not wait. Names that are not here do
// not count.
func (r *Registry) Rest(names []string, unused time.Duration, own func(process any) bool, wake func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*server
	for _, name := range names {
		s := r.servers[name]
		if s == nil {
			continue
		}
		if s.down != nil || s.rest != nil || !own(s.process) {
			return false
		}
		all = append(all, s)
	}
	since := r.clock.Now().Add(-unused)
	for i, s := range all {
		if !s.shutIfUnused(since) {
			for _, s := range all[:i] {
				s.open()
			}
			return false
		}
	}
	for _, s := range all {
		r.replace(s.name, &server{name: s.name, process: s.process, versions: s.versions, record: s.record, rest: &rest{own: own, wake: wake}})
	}
	return len(all) > 0
}

// Resting reports whether a server rests.
func (r *Registry) Resting(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.servers[name]
	return s != nil && s.rest != nil
}

// shutIfUnused lets no request begin any more, if the server is well, has none under way
// and had none since.
func (s *server) shutIfUnused(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gv := range s.versions {
		if err, checked := s.faults[gv]; !checked || err != nil {
			return false
		}
	}
	s.shut = s.under == 0 && !s.used.After(since)
	return s.shut
}

func (s *server) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = false
}

// begin counts a request; false: the process is about to end.
func (s *server) begin(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return false
	}
	s.under++
	s.used = now
	return true
}

func (s *server) done(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	s.used = now
}

// begin counts a request at the server that has the name of s now, and starts the process
// of one that rests.
func (r *Registry) begin(ctx context.Context, s *server) (*server, error) {
	name := s.name
	ctx, cancel := context.WithTimeoutCause(ctx, wakeFor, fmt.Errorf("it was started for this request, and did not answer within %s", wakeFor))
	defer cancel()
	for {
		switch {
		case s == nil:
			return nil, fmt.Errorf("plugin %s is not in use at this API server", name)
		case s.down != nil:
			return nil, fmt.Errorf("plugin %s: %w", name, s.down)
		case s.rest != nil:
			if err := s.await(ctx, r.ctx); err != nil {
				return nil, fmt.Errorf("plugin %s: %w", name, err)
			}
		case s.begin(r.clock.Now()):
			return s, nil
		}
		r.mu.RLock() // where Rest has it, it has another server
		s = r.servers[name]
		r.mu.RUnlock()
	}
}

// await waits until another server has the name of one that rests; host ends with the
// registry.
func (s *server) await(ctx, host context.Context) error {
	defer s.rest.waiting.Add(-1)
	if s.rest.waiting.Add(1) > mostWaiting {
		return fmt.Errorf("more than %d requests wait until it is started", mostWaiting)
	}
	s.rest.wake()
	select {
	case <-s.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-host.Done():
		return errors.New("this API server ends")
	}
}

// through reaches a server, or the one that has its name since.
type through struct {
	r *Registry
	s *server
}

// RoundTrip implements http.RoundTripper.
func (t through) RoundTrip(req *http.Request) (*http.Response, error) {
	if key := documentKey(req); key != "" {
		if t.s.rest == nil {
			res, err := t.s.transport.RoundTrip(req)
			if err == nil {
				t.s.record.keep(key, res)
				return res, nil
			}
			select {
			case <-t.s.over: // its process ended meanwhile
			default:
				return nil, err
			}
		}
		if res := t.s.record.answer(key, req); res != nil {
			return res, nil
		}
	}
	s, err := t.r.begin(req.Context(), t.s)
	if err != nil {
		return nil, err
	}
	done := sync.OnceFunc(func() { s.done(t.r.clock.Now()) })
	res, err := s.transport.RoundTrip(req)
	if err != nil || res.StatusCode == http.StatusSwitchingProtocols {
		done()
		return res, err
	}
	res.Body = &body{res.Body, done}
	return res, nil
}

// WrappedRoundTripper has connections of their own for what is no request any more, such as
// streams: they count until they are closed.
func (t through) WrappedRoundTripper() http.RoundTripper {
	return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		s, err := t.r.begin(ctx, t.s)
		if err != nil {
			return nil, err
		}
		done := sync.OnceFunc(func() { s.done(t.r.clock.Now()) })
		conn, err := s.dial(ctx)
		if err != nil {
			done()
			return nil, err
		}
		return &stream{conn, done}, nil
	}}
}

// body is an answer that is read; done is called with its end.
type body struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// stream is a connection; done is called with its end.
type stream struct {
	net.Conn
	done func()
}

// Close implements net.Conn.
func (s *stream) Close() error {
	defer s.done()
	return s.Conn.Close()
}

// askers are those of the kernel who ask about a server, rather than to use it.
var askers = []string{checkerName, "system:aggregator"}

// documentKey names an answer about a server: for whom the kernel asks, where, and in which
// form; empty: it is a request that uses the server.
func documentKey(req *http.Request) string {
	asker := req.Header.Get("X-Remote-User")
	if req.Method != http.MethodGet || !slices.Contains(askers, asker) || !about(req.URL.Path) {
		return ""
	}
	return asker + " " + req.URL.RequestURI() + " " + req.Header.Get("Accept") + " " + req.Header.Get("Accept-Encoding")
}
