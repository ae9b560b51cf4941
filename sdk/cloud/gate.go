package cloud

import (
	"errors"
	"net/http"
	"sync"
)

// errEnded is what a call gets that comes after the end.
var errEnded = errors.New("the cloud provider has ended")

// gate counts what is under way, of the provider's calls and its client's requests.
// Upstream's controllers do not wait for their workers, so this waits in their place.
type gate struct {
	mu     sync.Mutex
	closed bool
	under  sync.WaitGroup
}

func newGate() *gate { return &gate{} }

// enter lets a call pass unless the gate is closed; leave follows it.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.under.Add(1)
	return true
}

func (g *gate) leave() { g.under.Done() }

// close lets nothing pass any more, and waits for what is under way.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.under.Wait()
}

// wrap puts the gate before a client's requests.
func (g *gate) wrap(next http.RoundTripper) http.RoundTripper { return gated{g, next} }

type gated struct {
	gate *gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t gated) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.gate.enter() {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, errEnded
	}
	defer t.gate.leave()
	return t.next.RoundTrip(req)
}
