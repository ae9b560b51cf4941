package api

import (
	"net"
	"sync"
	"time"
)

// tellFull is how often it is said that a socket has no place left.
const tellFull = time.Minute

// limitedListener accepts no more than a number of connections at a time; further
// ones wait, which full tells at most once within tellFull.
type limitedListener struct {
	net.Listener
	places chan struct{} // one element for each connection that is open
	full   func()
	closed chan struct{}
	once   sync.Once
}

func limitListener(ln net.Listener, most int, full func()) net.Listener {
	return &limitedListener{Listener: ln, places: make(chan struct{}, most), full: full, closed: make(chan struct{})}
}

// Accept is called by one goroutine, that of the server.
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.place() {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &limitedConn{Conn: conn, places: l.places}, nil
}

// place takes a place, when there is one; false: the listener is closed.
func (l *limitedListener) place() bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	for {
		l.full()
		again := time.NewTimer(tellFull)
		select {
		case l.places <- struct{}{}:
			again.Stop()
			return true
		case <-l.closed:
			again.Stop()
			return false
		case <-again.C:
		}
	}
}

func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	places chan struct{}
	once   sync.Once
}

func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.places })
	return err
}
