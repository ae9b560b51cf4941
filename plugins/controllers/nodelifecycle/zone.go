package nodelifecycle

import (
	"slices"

	"golang.org/x/time/rate"
)

// zone limits the evictions of one failure zone (NC-6, NC-7).
type zone struct {
	limiter *rate.Limiter
	waiting []string // nodes to taint, in order
}

// disrupt sets the rates of the zones by how many nodes of each are ready.
// While every node is down it is this side that is cut off, more likely: then
// nothing is evicted, and judge takes back what was begun. When the first node
// comes back, all others have their grace period anew (NC-7).
func (l *lifecycle) disrupt(ready, all map[string]int) {
	wasDown := l.down
	l.down = len(all) > 0 && len(ready) == 0
	l.mu.Lock()
	for key, z := range l.zones {
		limit := l.config.evictionRate(ready[key], all[key])
		if l.down {
			limit = 0
		}
		if z.limiter.Limit() != limit {
			z.limiter.SetLimit(limit)
		}
		z.waiting = slices.DeleteFunc(z.waiting, func(name string) bool { return l.health[name] == nil })
	}
	if wasDown && !l.down {
		now := l.now()
		for _, h := range l.health {
			h.seen = now
		}
	}
	known := len(l.health)
	l.mu.Unlock()
	switch {
	case l.down && !wasDown:
		l.log.Warn("no node is ready: nothing is evicted until one is", "nodes", known)
	case wasDown && !l.down:
		l.log.Info("a node is ready again: evictions go on")
	}
}
