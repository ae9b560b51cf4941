package server

import (
	"net/netip"
	"sync"
)

// share of the queries in flight that one client may have: a pod that asks for what
// takes long leaves room for the others.
const share = 4

// flights bounds queries that are in flight, in all and of one client.
type flights struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[netip.Addr]int
}

func newFlights(most int) *flights {
	return &flights{most: most, each: max(1, most/share), of: map[netip.Addr]int{}}
}

// enter reports whether there is room for a query of a client, which leave gives back.
func (f *flights) enter(from netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all >= f.most || f.of[from] >= f.each {
		return false
	}
	f.all++
	f.of[from]++
	return true
}

func (f *flights) leave(from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all--
	if f.of[from]--; f.of[from] == 0 {
		delete(f.of, from)
	}
}
