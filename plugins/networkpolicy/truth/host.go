package truth

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Host sends and receives in one network namespace, which it holds open.
type Host struct {
	file *os.File

	mu    sync.Mutex
	stop  []io.Closer
	heard map[uint32]bool // tags of SCTP associations that were asked for
	group sync.WaitGroup
}

// NewHost has a network namespace of its own, with nothing in it.
func NewHost() (*Host, error) { return openHost("") }

// HostOf is in the network namespace of a path such as /proc/7/ns/net.
func HostOf(path string) (*Host, error) { return openHost(path) }

func openHost(path string) (*Host, error) {
	h := &Host{heard: map[uint32]bool{}}
	err := onThread(func() error {
		if path == "" {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("make a network namespace: %w", err)
			}
		}
		var err error
		h.file, err = os.Open(orElse(path, "/proc/thread-self/ns/net"))
		return err
	})
	return h, err
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// onThread runs f on a thread of its own, which ends with it. No other goroutine gets its namespace.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// Fd is the namespace as an open file.
func (h *Host) Fd() int { return int(h.file.Fd()) }

// Do runs f in the namespace. Sockets that it opens stay there.
func (h *Host) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(h.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// Close ends what Serve began.
func (h *Host) Close() error {
	h.mu.Lock()
	var errs []error
	for _, c := range h.stop {
		errs = append(errs, c.Close())
	}
	h.stop = nil
	h.mu.Unlock()
	h.group.Wait()
	return errors.Join(append(errs, h.file.Close())...)
}

// Serve answers at TCP and UDP ports, and listens to all of SCTP, for which this machine
// need not have a protocol: packets are made by hand.
func (h *Host) Serve(families []program.Family, ports ...uint16) error {
	return h.Do(func() error {
		for _, family := range families {
			for _, port := range ports {
				l, err := net.Listen(fmt.Sprint("tcp", family), fmt.Sprint(":", port))
				if err != nil {
					return err
				}
				h.keep(l, func() { accept(l) })
				p, err := net.ListenPacket(fmt.Sprint("udp", family), fmt.Sprint(":", port))
				if err != nil {
					return err
				}
				h.keep(p, func() { echo(p) })
			}
			raw, err := net.ListenPacket(fmt.Sprintf("ip%d:132", family), "")
			if err != nil {
				return err
			}
			h.keep(raw, func() { h.listen(raw) })
		}
		return nil
	})
}

func (h *Host) keep(c io.Closer, run func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stop = append(h.stop, c)
	h.group.Go(run)
}

// accept sends back what comes, on each connection, until the listener closes.
func accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // ends with the client
			defer c.Close()
			_, _ = io.Copy(c, c)
		}()
	}
}

func echo(p net.PacketConn) {
	b := make([]byte, 64)
	for {
		n, from, err := p.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = p.WriteTo(b[:n], from)
	}
}

func (h *Host) listen(raw net.PacketConn) {
	b := make([]byte, 2048)
	for {
		n, _, err := raw.ReadFrom(b)
		if err != nil {
			return
		}
		if n >= 20 && b[12] == 1 {
			h.mu.Lock()
			h.heard[binary.BigEndian.Uint32(b[16:20])] = true
			h.mu.Unlock()
		}
	}
}

// association is the first packet of SCTP: a header and a chunk INIT.
func association(tag uint32, port uint16) []byte {
	b := make([]byte, 32)
	binary.BigEndian.PutUint16(b[0:], 40000+uint16(tag%20000))
	binary.BigEndian.PutUint16(b[2:], port)
	b[12] = 1
	binary.BigEndian.PutUint16(b[14:], 20)
	binary.BigEndian.PutUint32(b[16:], tag)
	binary.BigEndian.PutUint32(b[20:], 65536)
	binary.BigEndian.PutUint16(b[24:], 1)
	binary.BigEndian.PutUint16(b[26:], 1)
	binary.BigEndian.PutUint32(b[28:], tag)
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// try sends once, and says whether what was sent arrived and, but for SCTP, was answered.
func (h *Host) try(to *Host, at netip.Addr, protocol uint8, port uint16, wait time.Duration) bool {
	var got bool
	_ = h.Do(func() error {
		var err error
		switch protocol {
		case program.SCTP:
			got, err = h.associate(to, at, port, wait)
		default:
			got, err = exchange(map[uint8]string{program.TCP: "tcp", program.UDP: "udp"}[protocol], at, port, wait)
		}
		return err // no answer is an answer
	})
	return got
}

// lastPort is the source port that exchange gave last, from firstPort on.
var lastPort atomic.Uint32

const (
	firstPort   = 20000
	sourcePorts = 40000
)

// exchange gives each UDP question a source port of its own. With one by chance it may have
// that of an earlier question to the same port, whose flow the kernel still tracks, and
// what was allowed goes on.
func exchange(network string, at netip.Addr, port uint16, wait time.Duration) (bool, error) {
	d := net.Dialer{Timeout: wait}
	if network == "udp" {
		d.LocalAddr = &net.UDPAddr{Port: int(firstPort + lastPort.Add(1)%sourcePorts)}
	}
	c, err := d.Dial(network, netip.AddrPortFrom(at, port).String())
	if err != nil {
		return false, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return false, err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return false, err
	}
	_, err = c.Read(make([]byte, 8))
	return err == nil, err
}

func (h *Host) associate(to *Host, at netip.Addr, port uint16, wait time.Duration) (bool, error) {
	family := 6
	if at.Is4() {
		family = 4
	}
	c, err := net.Dial(fmt.Sprintf("ip%d:132", family), at.String())
	if err != nil {
		return false, err
	}
	defer c.Close()
	tag := rand.Uint32() | 1
	if _, err := c.Write(association(tag, port)); err != nil {
		return false, err
	}
	for end := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		to.mu.Lock()
		heard := to.heard[tag]
		to.mu.Unlock()
		if heard || time.Now().After(end) {
			return heard, nil
		}
	}
}

const (
	// silence is how long no answer counts as none, where none is expected. A slower
	// machine lets a wrong answer pass unseen then, and never fails a right one.
	silence = 300 * time.Millisecond
	// patience bounds the wait for an answer that is expected.
	patience = 2 * time.Minute
	// together is how many connections are tried at once.
	together = 48
)

// Probe says whether a connection is as it is wanted to be: tried until it is answered, or
// once where it shall not be.
func Probe(ctx context.Context, from, to *Host, at netip.Addr, protocol uint8, port uint16, want bool) bool {
	if !want {
		return !from.try(to, at, protocol, port, silence)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := time.Second; ctx.Err() == nil; wait *= 2 {
		if from.try(to, at, protocol, port, min(wait, 20*time.Second)) {
			return true
		}
	}
	return false
}

// ProbeGroup says whether a host answers what is sent to a group, or to all of a link, by UDP,
// as it is wanted to: sent until it answers, or once where it shall not.
func ProbeGroup(ctx context.Context, from *Host, group netip.AddrPort, who netip.Addr, want bool) bool {
	if !want {
		return !from.shout(group, who, silence)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		if from.shout(group, who, time.Second) {
			return true
		}
	}
	return false
}

func (h *Host) shout(group netip.AddrPort, who netip.Addr, wait time.Duration) bool {
	var got bool
	_ = h.Do(func() error {
		family := 6
		if group.Addr().Is4() {
			family = 4
		}
		// Its port is one of its own, as that of exchange.
		c, err := net.ListenUDP(fmt.Sprint("udp", family), &net.UDPAddr{Port: int(firstPort + lastPort.Add(1)%sourcePorts)})
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		if _, err := c.WriteToUDPAddrPort([]byte("?"), group); err != nil {
			return err
		}
		for b := make([]byte, 8); !got; {
			_, answer, err := c.ReadFromUDPAddrPort(b)
			if err != nil {
				return err // no answer is an answer
			}
			got = answer.Addr().Unmap().WithZone("") == who
		}
		return nil
	})
	return got
}

// Ask is one connection of a matrix.
type Ask struct {
	From, To string
	Packet   Packet
	Want     bool
}

// Matrix tries connections between hosts, many at once, and returns what is not as wanted.
func Matrix(ctx context.Context, hosts map[string]*Host, asks []Ask) []string {
	var mu sync.Mutex
	var wrong []string
	var group sync.WaitGroup
	turns := make(chan struct{}, together)
	for _, a := range asks {
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			if !Probe(ctx, hosts[a.From], hosts[a.To], a.Packet.Destination, a.Packet.Protocol, a.Packet.Port, a.Want) {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, fmt.Sprintf("%s to %s, %s protocol %d port %d: want %t", a.From, a.To, a.Packet.Destination, a.Packet.Protocol, a.Packet.Port, a.Want))
			}
		})
	}
	group.Wait()
	slices.Sort(wrong)
	return wrong
}
