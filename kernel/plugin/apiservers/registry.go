package apiservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

const (
	// idleConnections to a server are kept for idleFor.
	idleConnections, idleFor = 25, 90 * time.Second
	// maxHeaderBytes bounds the header of an answer.
	maxHeaderBytes = 1 << 20
)

// Dial connects to a server.
type Dial func(ctx context.Context) (net.Conn, error)

// Registry is the servers that run here. Safe for concurrent use.
type Registry struct {
	changed func()
	clock   clock.Clock

	ctx    context.Context //nolint:containedctx // ends the checks, which outlive the calls that begin them
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	servers map[string]*server
}

// New knows no server. changed is told when one answers that did not, or the other way
// round; it must not wait.
func New(changed func(), c clock.Clock) *Registry {
	r := &Registry{changed: changed, clock: c, servers: map[string]*server{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends all that was started, and waits for it.
func (r *Registry) Close() {
	r.mu.Lock()
	r.closed = true
	for name, s := range r.servers {
		s.end()
		delete(r.servers, name)
	}
	r.mu.Unlock()
	r.cancel()
	r.group.Wait()
}

// server is one plugin's: it runs, rests, or is down. Another one takes its place when
// that changes.
type server struct {
	name     string
	process  any // of the process: another one is another server
	versions []schema.GroupVersion
	down     error         // why it does not run
	rest     *rest         // of one that rests
	over     chan struct{} // closed when another server has its name, or none

	dial      Dial
	transport *http.Transport
	cancel    context.CancelFunc
	record    *record

	mu     sync.Mutex
	faults map[schema.GroupVersion]error // of the last check; no entry: there was none
	// under is how many requests are under way, used when one began or ended last.
	under int
	used  time.Time
	shut  bool // its process is about to end: nothing begins
}

func (s *server) end() {
	close(s.over)
	if s.cancel != nil {
		s.cancel()
		s.transport.CloseIdleConnections()
	}
}

// fault is why a group version cannot be served; nil: it can.
func (s *server) fault(gv schema.GroupVersion) error {
	if s.down != nil || s.rest != nil {
		return s.down
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err, checked := s.faults[gv]
	if !checked {
		return errors.New("it was not checked yet")
	}
	return err
}

// Up says that a server runs in a process, serves group versions and is reached by dial.
// Said again of the same process it changes nothing.
func (r *Registry) Up(name string, process any, versions []schema.GroupVersion, dial Dial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.servers[name]
	// That of one that rests is the process that has ended, which was asked before it did.
	if r.closed || old != nil && old.down == nil && old.process == process && slices.Equal(old.versions, versions) {
		return
	}
	s := &server{name: name, process: process, versions: versions, dial: dial, record: &record{}, faults: map[schema.GroupVersion]error{}, used: r.clock.Now()}
	if old != nil && old.rest != nil && old.rest.own(process) {
		// It was well before it rested, and somebody waits for it.
		s.record = old.record
		for _, gv := range versions {
			s.faults[gv] = nil
		}
	}
	s.transport = &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true, MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleFor, MaxResponseHeaderBytes: maxHeaderBytes,
	}
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(r.ctx)
	r.replace(name, s)
	r.group.Go(func() { s.check(ctx, r) })
}

// replace gives a name to another server; mu is held.
func (r *Registry) replace(name string, s *server) {
	if old := r.servers[name]; old != nil {
		old.end()
	}
	s.over = make(chan struct{})
	r.servers[name] = s
}

// Down says that a server does not run, and why.
func (r *Registry) Down(name string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.replace(name, &server{name: name, down: why})
}

// Keep forgets all servers but those.
func (r *Registry) Keep(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.servers {
		if !slices.Contains(names, name) {
			s.end()
			delete(r.servers, name)
		}
	}
}

// Transport reaches the server of a plugin, or says why it cannot be reached now.
func (r *Registry) Transport(name string, gv schema.GroupVersion) (http.RoundTripper, error) {
	r.mu.RLock()
	s := r.servers[name]
	r.mu.RUnlock()
	switch {
	case s == nil:
		return nil, fmt.Errorf("plugin %s is not in use at this API server", name)
	case s.down == nil && !slices.Contains(s.versions, gv):
		return nil, fmt.Errorf("plugin %s does not serve %s at this API server", name, gv)
	}
	if err := s.fault(gv); err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	return through{r, s}, nil
}

// Fault is why a group version of a plugin is not served here; nil: it is.
func (r *Registry) Fault(name string, gv schema.GroupVersion) error {
	_, err := r.Transport(name, gv)
	return err
}
