package server

import (
	"net"
	"sync"
)

// tracker is a listener that can close every connection it accepted, also those that were upgraded to streams and
// that http.Server no longer knows.
type tracker struct {
	net.Listener

	mu     sync.Mutex
	closed bool
	open   map[*tracked]struct{}
}

type tracked struct {
	net.Conn
	owner *tracker
}

func newTracker(l net.Listener) *tracker {
	return &tracker{Listener: l, open: map[*tracked]struct{}{}}
}

// Accept implements net.Listener.
func (t *tracker) Accept() (net.Conn, error) {
	conn, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &tracked{Conn: conn, owner: t}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	t.open[c] = struct{}{}
	return c, nil
}

// Close implements net.Conn.
func (c *tracked) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// cut closes every connection, now and to come.
func (t *tracker) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for c := range t.open {
		_ = c.Conn.Close()
	}
}
