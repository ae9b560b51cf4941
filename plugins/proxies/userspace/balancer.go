package userspace

import (
	"errors"
	"sync"
	"time"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// errNoEndpoints is answered when a port has no endpoint (requirement LBR-11).
var errNoEndpoints = errors.New("no endpoints available")

// balancer chooses endpoints, round robin with affinity to a client's address
// (requirements LBR-1 to LBR-13). It is safe for use by several goroutines.
type balancer struct {
	now func() time.Time

	mu    sync.Mutex
	ports map[list]*record
}

// list names the endpoints of a port for one traffic policy.
type list struct {
	serviceport.ID
	local bool
}

// record is what the balancer knows of one list.
type record struct {
	endpoints []serviceport.Endpoint
	next      int
	sticky    time.Duration
	clients   map[string]session // by client IP
}

type session struct {
	endpoint serviceport.Endpoint
	used     time.Time
}

func newBalancer() *balancer {
	return &balancer{now: time.Now, ports: map[list]*record{}}
}

// update takes a port's new endpoints; sessions with an endpoint that is gone
// are dropped, so that their clients are moved (LBR-12, LBR-13).
func (b *balancer) update(p *serviceport.Port) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(list{p.ID, false}, p.Cluster, p.Sticky)
	b.set(list{p.ID, true}, p.Local, p.Sticky)
}

func (b *balancer) set(which list, endpoints []serviceport.Endpoint, sticky time.Duration) {
	r := b.ports[which]
	if r == nil {
		r = &record{clients: map[string]session{}}
		b.ports[which] = r
	}
	r.endpoints, r.sticky = endpoints, sticky
	present := make(map[string]bool, len(r.endpoints))
	for _, e := range r.endpoints {
		present[e.Address()] = true
	}
	for client, s := range r.clients {
		if r.sticky == 0 || !present[s.endpoint.Address()] {
			delete(r.clients, client)
		}
	}
}

func (b *balancer) remove(id serviceport.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ports, list{id, false})
	delete(b.ports, list{id, true})
}

// pick chooses the endpoint for a client (LBR-1 NextEndpoint). With fresh, the
// client's session is not used: its endpoint did not answer.
func (b *balancer) pick(which list, client string, fresh bool) (serviceport.Endpoint, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ports[which]
	if r == nil || len(r.endpoints) == 0 {
		return serviceport.Endpoint{}, errNoEndpoints
	}
	now := b.now()
	if s, ok := r.clients[client]; ok && !fresh && now.Sub(s.used) < r.sticky {
		// A hit renews the session, as kube-proxy's does (LBR-10 leaves it open).
		r.clients[client] = session{s.endpoint, now}
		return s.endpoint, nil
	}
	// The first call takes index 0: the literal increment-then-use of LBR-7
	// would pass it over (LBR-10).
	r.next %= len(r.endpoints)
	chosen := r.endpoints[r.next]
	r.next++
	if r.sticky > 0 {
		r.expire(now)
		r.clients[client] = session{chosen, now}
	}
	return chosen, nil
}

// maxClients bounds the sessions of one port; past it the expired ones go, and
// if none has expired the oldest.
const maxClients = 65536

func (r *record) expire(now time.Time) {
	if len(r.clients) < maxClients {
		return
	}
	var oldest string
	var at time.Time
	for client, s := range r.clients {
		if now.Sub(s.used) >= r.sticky {
			delete(r.clients, client)
		} else if oldest == "" || s.used.Before(at) {
			oldest, at = client, s.used
		}
	}
	if len(r.clients) >= maxClients {
		delete(r.clients, oldest)
	}
}
