package userspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// dialTimeouts are the waits for one endpoint each, before the client is given
// up; a following try takes another endpoint.
var dialTimeouts = []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second}

// chooser picks an endpoint for a client.
type chooser func(client string, fresh bool) (serviceport.Endpoint, error)

// socket is a listening socket of one service port (a ProxySocket).
type socket struct {
	log    *slog.Logger
	choose chooser
	limit  chan struct{} // one token a connection, shared by all sockets
	port   int

	listener net.Listener   // TCP
	packets  net.PacketConn // UDP
	idle     time.Duration  // UDP: how long a silent client is remembered

	ctx    context.Context //nolint:containedctx // ends every connection of the socket
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// listen opens a socket for a protocol on an address; port 0 takes a free one.
func listen(protocol, host string, port int, choose chooser, limit chan struct{}, idle time.Duration, log *slog.Logger) (*socket, error) {
	s := &socket{log: log, choose: choose, limit: limit, idle: idle}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	address := net.JoinHostPort(host, fmt.Sprint(port))
	var err error
	switch protocol {
	case "TCP":
		if s.listener, err = net.Listen("tcp4", address); err != nil {
			return nil, err
		}
		s.port = s.listener.Addr().(*net.TCPAddr).Port
		s.wg.Go(s.acceptTCP)
	case "UDP":
		if s.packets, err = net.ListenPacket("udp4", address); err != nil {
			return nil, err
		}
		s.port = s.packets.LocalAddr().(*net.UDPAddr).Port
		s.wg.Go(s.readUDP)
	default:
		return nil, fmt.Errorf("protocol %s is not supported by the userspace proxy", protocol)
	}
	return s, nil
}

// close ends the socket with all its connections and waits for them.
func (s *socket) close() {
	s.cancel()
	if s.listener != nil {
		s.listener.Close()
	}
	if s.packets != nil {
		s.packets.Close()
	}
	s.wg.Wait()
}

func (s *socket) acceptTCP() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			if s.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				s.log.Warn("accepting a connection failed", "error", err)
				select {
				case <-time.After(10 * time.Millisecond): // too many open files: do not spin
					continue
				case <-s.ctx.Done():
				}
			}
			return
		}
		select {
		case s.limit <- struct{}{}:
		default:
			conn.Close()
			s.log.Warn("connection refused: too many are open", "limit", cap(s.limit))
			continue
		}
		s.wg.Go(func() {
			defer func() { <-s.limit }()
			s.serveTCP(conn.(*net.TCPConn))
		})
	}
}

func (s *socket) serveTCP(client *net.TCPConn) {
	defer client.Close()
	host, _, err := net.SplitHostPort(client.RemoteAddr().String())
	if err != nil {
		return
	}
	conn, err := s.dial("tcp4", host)
	if err != nil {
		s.log.Log(s.ctx, severity(err), "no endpoint answered", "client", host, "error", err)
		return
	}
	backend := conn.(*net.TCPConn)
	defer backend.Close()
	stop := context.AfterFunc(s.ctx, func() { client.Close(); backend.Close() })
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { pipe(backend, client) })
	pipe(client, backend)
	wg.Wait()
}

// severity: a stranger who is kept out must not fill the log.
func severity(err error) slog.Level {
	if errors.Is(err, errNotAllowed) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// pipe copies one direction and passes its end on, so that a half-closed
// connection goes on in the other direction.
func pipe(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		from.Close()
		to.Close()
		return
	}
	to.CloseWrite()
}

// dial connects to an endpoint; one that does not answer is passed over.
func (s *socket) dial(network, client string) (net.Conn, error) {
	var last error
	for i, timeout := range dialTimeouts {
		e, err := s.choose(client, i > 0)
		if err != nil {
			return nil, errors.Join(err, last)
		}
		d := net.Dialer{Timeout: timeout}
		conn, err := d.DialContext(s.ctx, network, e.Address())
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// readUDP gives each client a connection of its own to an endpoint, so that
// answers find the way back.
func (s *socket) readUDP() {
	var mu sync.Mutex
	clients := map[string]net.Conn{}
	defer func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range clients {
			c.Close()
		}
	}()
	buf := make([]byte, 65536)
	for {
		n, from, err := s.packets.ReadFrom(buf)
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // an ICMP error of an earlier packet
		}
		key := from.String()
		mu.Lock()
		backend := clients[key]
		mu.Unlock()
		if backend == nil {
			select {
			case s.limit <- struct{}{}:
			default:
				continue // full: the packet is lost, as on a full queue
			}
			host, _, _ := net.SplitHostPort(key)
			if backend, err = s.dial("udp4", host); err != nil {
				<-s.limit
				s.log.Log(s.ctx, severity(err), "no endpoint for a packet", "client", host, "error", err)
				continue
			}
			mu.Lock()
			clients[key] = backend
			mu.Unlock()
			s.wg.Go(func() {
				defer func() { <-s.limit }()
				s.answerUDP(backend, from)
				mu.Lock()
				delete(clients, key)
				mu.Unlock()
				backend.Close()
			})
		}
		if _, err := backend.Write(buf[:n]); err == nil {
			_ = backend.SetReadDeadline(time.Now().Add(s.idle))
		}
	}
}

func (s *socket) answerUDP(backend net.Conn, client net.Addr) {
	buf := make([]byte, 65536)
	_ = backend.SetReadDeadline(time.Now().Add(s.idle))
	for {
		n, err := backend.Read(buf)
		if err != nil {
			return
		}
		_ = backend.SetReadDeadline(time.Now().Add(s.idle))
		if _, err := s.packets.WriteTo(buf[:n], client); err != nil {
			return
		}
	}
}
