package packets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// serveUDP answers each datagram with a name and the address that it came from, until the
// process ends.
func serveUDP(name string) error {
	conn, err := net.ListenPacket("udp", ":8080")
	if err != nil {
		return err
	}
	go func() {
		for b := make([]byte, 64); ; {
			_, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			conn.WriteTo([]byte(name+" "+netip.MustParseAddrPort(from.String()).Addr().Unmap().String()), from)
		}
	}()
	return nil
}

func askUDP(address string, port int, wait time.Duration) answer {
	d := net.Dialer{LocalAddr: &net.UDPAddr{Port: port}}
	conn, err := d.Dial("udp", address)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(wait))
	if _, err := conn.Write([]byte("?")); err != nil {
		return answer{Error: err.Error()}
	}
	b := make([]byte, 64)
	n, err := conn.Read(b)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Text: string(b[:n])}
}

// Chunks that begin an association of SCTP. Packets are made by hand, since a kernel may
// translate the protocol's addresses and have no sockets of it.
const (
	sctpInit    = 1
	sctpInitAck = 2
	sctpPort    = 8080
	// textParameter has a text; those that do not know it skip it (RFC 9260, 3.2.1).
	textParameter = 0x8fff
)

// association is the first packet of one, or its answer.
type association struct {
	from, to uint16 // ports
	chunk    byte
	tag, own uint32 // of the packet, and of the one that sends it
	text     string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (a association) packet() []byte {
	text := make([]byte, (len(a.text)+3)&^3)
	copy(text, a.text)
	p := binary.BigEndian.AppendUint16(nil, a.from)
	p = binary.BigEndian.AppendUint16(p, a.to)
	p = binary.BigEndian.AppendUint32(p, a.tag)
	p = append(p, 0, 0, 0, 0, a.chunk, 0)
	p = binary.BigEndian.AppendUint16(p, uint16(24+len(a.text))) // the chunk, without what fills it up
	p = binary.BigEndian.AppendUint32(p, a.own)
	p = binary.BigEndian.AppendUint32(p, 1500) // window
	p = append(p, 0, 1, 0, 1, 0, 0, 0, 1)      // streams out and in, first number
	p = binary.BigEndian.AppendUint16(p, textParameter)
	p = binary.BigEndian.AppendUint16(p, uint16(4+len(a.text)))
	p = append(p, text...)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, castagnoli))
	return p
}

func readAssociation(p []byte) (association, bool) {
	if len(p) < 36 {
		return association{}, false
	}
	a := association{
		from: binary.BigEndian.Uint16(p), to: binary.BigEndian.Uint16(p[2:]), tag: binary.BigEndian.Uint32(p[4:]),
		chunk: p[12], own: binary.BigEndian.Uint32(p[16:]),
	}
	end := 32 + int(binary.BigEndian.Uint16(p[34:]))
	if end < 36 || end > len(p) {
		return association{}, false
	}
	a.text = string(p[36:end])
	return a, true
}

// listenSCTP opens a socket that gets all packets of the protocol.
func listenSCTP(network string) (*net.IPConn, error) {
	conn, err := net.ListenPacket(network+":132", "")
	if err != nil {
		return nil, err
	}
	return conn.(*net.IPConn), nil
}

// serveSCTP answers the first packet of each association with a name and the address that it
// came from, until the process ends.
func serveSCTP(name string) error {
	for _, network := range []string{"ip4", "ip6"} {
		conn, err := listenSCTP(network)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			return err
		}
		go func() {
			for b := make([]byte, 1500); ; {
				size, from, err := conn.ReadFrom(b)
				if err != nil {
					return
				}
				if in, ok := readAssociation(b[:size]); ok && in.chunk == sctpInit && in.to == sctpPort {
					conn.WriteTo(association{sctpPort, in.from, sctpInitAck, in.own, 1, name + " " + from.String()}.packet(), from)
				}
			}
		}()
	}
	return nil
}

// sctpSource is the port of the next association: none is used twice in a process.
var sctpSource = uint16(20000 + os.Getpid()%20000)

func askSCTP(address string, wait time.Duration) answer {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return answer{Error: err.Error()}
	}
	network := "ip4"
	if to.Addr().Is6() {
		network = "ip6"
	}
	conn, err := listenSCTP(network)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer conn.Close()
	sctpSource++
	source := sctpSource
	if _, err := conn.WriteTo(association{source, to.Port(), sctpInit, 0, uint32(source), ""}.packet(), &net.IPAddr{IP: to.Addr().AsSlice()}); err != nil {
		return answer{Error: err.Error()}
	}
	conn.SetReadDeadline(time.Now().Add(wait))
	for b := make([]byte, 1500); ; {
		size, from, err := conn.ReadFrom(b)
		if err != nil {
			return answer{Error: err.Error()}
		}
		in, ok := readAssociation(b[:size])
		if ok && in.chunk == sctpInitAck && in.to == source {
			if from.String() != to.Addr().String() || in.from != to.Port() {
				return answer{Error: fmt.Sprintf("the answer comes from %s:%d", from, in.from)}
			}
			return answer{Text: in.text}
		}
	}
}
