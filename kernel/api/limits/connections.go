package limits

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// refusedStays is how long a connection that its user has too many of stays open:
// the time that the answer takes to be sent.
const refusedStays = time.Second

// Connections bounds the connections of a listener.
type Connections struct {
	all, perUser, perSource int // 0: no limit
	refuse                  Refuse

	open sync.Map // remote address to *connection

	mu      sync.Mutex
	count   int
	known   int            // of count, those of users with limits
	users   map[string]int // connections of each
	unknown list.List      // *connection without a user, oldest first
	sources map[string]*list.List
}

// NewConnections makes the limits: of all, of one user, and of one source address
// as long as nobody was authenticated.
func NewConnections(all, perUser, perSource int, refuse Refuse) *Connections {
	return &Connections{all: all, perUser: perUser, perSource: perSource, refuse: refuse,
		users: map[string]int{}, sources: map[string]*list.List{}}
}

// connection is one that was accepted.
type connection struct {
	net.Conn
	owner   *Connections
	remote  string
	source  string
	settled atomic.Pointer[verdict]

	// guarded by the owner's lock
	user          string
	inAll, inPeer *list.Element
	gone          bool
}

// verdict is what became of the first request that was authenticated.
type verdict struct{ err error }

// Listener bounds what comes in through another.
func (l *Connections) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	owner *Connections
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.owner.admit(c); c != nil {
			return c, nil
		}
	}
}

// admit takes a connection in. Where there are too many without a user, the oldest
// of them goes: who was going to be authenticated has been by then. It returns nil
// where all are somebody's.
func (l *Connections) admit(inner net.Conn) net.Conn {
	c := &connection{Conn: inner, owner: l, remote: inner.RemoteAddr().String()}
	c.source = sourceOf(c.remote)
	l.mu.Lock()
	var evicted *connection
	same := l.sources[c.source]
	switch {
	case l.perSource > 0 && same != nil && same.Len() >= l.perSource:
		evicted = same.Front().Value.(*connection)
	case l.all > 0 && l.count >= l.all && l.unknown.Len() > 0:
		evicted = l.unknown.Front().Value.(*connection)
	case l.all > 0 && l.count >= l.all:
		l.mu.Unlock()
		inner.Close()
		return nil
	}
	if evicted != nil {
		l.forget(evicted)
	}
	if same = l.sources[c.source]; same == nil {
		same = list.New()
		l.sources[c.source] = same
	}
	c.inAll, c.inPeer = l.unknown.PushBack(c), same.PushBack(c)
	l.count++
	l.mu.Unlock()
	if evicted != nil {
		evicted.Conn.Close()
	}
	l.open.Store(c.remote, c)
	return c
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.forget(c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}

// forget takes a connection out of the count, under the lock.
func (l *Connections) forget(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	l.count--
	l.open.CompareAndDelete(c.remote, c)
	l.leaveUnknown(c)
	if c.user != "" {
		l.known--
		if l.users[c.user]--; l.users[c.user] == 0 {
			delete(l.users, c.user)
		}
	}
}

func (l *Connections) leaveUnknown(c *connection) {
	if c.inAll == nil {
		return
	}
	l.unknown.Remove(c.inAll)
	same := l.sources[c.source]
	same.Remove(c.inPeer)
	if same.Len() == 0 {
		delete(l.sources, c.source)
	}
	c.inAll, c.inPeer = nil, nil
}

// Before counts the connection of each request that was authenticated for its user.
func (l *Connections) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := l.settle(req); err != nil {
			w.Header().Set("Connection", "close")
			l.refuse(w, req, err)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// settle decides about the connection of a request, once.
func (l *Connections) settle(req *http.Request) error {
	value, ok := l.open.Load(req.RemoteAddr)
	if !ok {
		return nil // another way in, with limits of its own
	}
	c := value.(*connection)
	if v := c.settled.Load(); v != nil {
		return v.err
	}
	who := clientOf(req)
	if who.anonymous {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone || c.settled.Load() != nil {
		return nil
	}
	v := &verdict{}
	switch {
	case who.privileged:
	case l.perUser > 0 && l.users[who.name] >= l.perUser:
		v.err = tooMany("user %q has %d connections open, which is the limit of a user", who.name, l.perUser)
	case l.all > 0 && l.known >= l.all-l.all/10:
		// The last tenth is system:masters', and of those who come.
		v.err = tooMany("the server has %d connections of users open, which is its limit", l.known)
	default:
		c.user = who.name
		l.users[who.name]++
		l.known++
	}
	c.settled.Store(v)
	if v.err != nil {
		time.AfterFunc(refusedStays, func() { _ = c.Close() })
		return v.err
	}
	l.leaveUnknown(c)
	return nil
}
