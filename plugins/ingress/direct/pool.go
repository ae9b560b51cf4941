package direct

import (
	"slices"
	"sync"
	"time"
)

// pool keeps connections without a request. The zero value is ready.
type pool struct {
	mu     sync.Mutex
	all    []*conn            // the one that has been here longest first
	hosts  map[string][]*conn // the same ones
	timer  *time.Timer        // ends what is here too long; nil: none was here yet
	closed bool
}

// take returns the connection to a host that came last, or nil. Those that are not fit are
// closed.
func (p *pool) take(host string) *conn {
	for {
		c := p.last(host)
		if c == nil || c.fit() {
			return c
		}
		c.close()
	}
}

func (p *pool) last(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.hosts[host]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	p.remove(c)
	return c
}

// put keeps a connection. It reports false where that is not wanted.
func (p *pool) put(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := c.of
	if p.closed || len(p.hosts[c.host]) >= t.MaxIdlePerHost {
		return false
	}
	if len(p.all) >= t.MaxIdle {
		oldest := p.all[0]
		p.remove(oldest)
		defer oldest.close()
	}
	if p.hosts == nil {
		p.hosts = map[string][]*conn{}
	}
	c.idleSince = time.Now()
	p.all = append(p.all, c)
	p.hosts[c.host] = append(p.hosts[c.host], c)
	switch {
	case p.timer == nil:
		p.timer = time.AfterFunc(t.IdleTimeout, func() { p.expire(t.IdleTimeout) })
	case len(p.all) == 1:
		p.timer.Reset(t.IdleTimeout)
	}
	return true
}

// expire closes what is here too long.
func (p *pool) expire(after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.all) > 0 {
		c := p.all[0]
		if left := after - time.Since(c.idleSince); left > 0 {
			p.timer.Reset(left)
			return
		}
		p.remove(c)
		defer c.close()
	}
}

// remove takes a connection out. Most often it is among the last ones.
func (p *pool) remove(c *conn) {
	if i := lastIndex(p.all, c); i >= 0 {
		p.all = slices.Delete(p.all, i, i+1)
	}
	list := p.hosts[c.host]
	if i := lastIndex(list, c); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if p.hosts[c.host] = list; len(list) == 0 {
		delete(p.hosts, c.host)
	}
}

func lastIndex(list []*conn, c *conn) int {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == c {
			return i
		}
	}
	return -1
}

// close closes all; from now on none is kept.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, c := range p.all {
		c.close()
	}
	p.all, p.hosts = nil, nil
}
