package conntrack

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
)

// Tuple is where packets of one direction come from and go to. A protocol without ports has
// port 0.
type Tuple struct{ Source, Destination netip.AddrPort }

// Flow is a tracked connection. Original is what its first packet had; Reply is what answers
// have, so that its source is who answers in truth, and differs from the original destination
// where a service was asked.
type Flow struct {
	Protocol        uint8
	Original, Reply Tuple
}

// headerSize is that of netfilter's header before the attributes of a message.
const headerSize = 4

// parse reads a message of the kernel's list. It reads nothing beyond it, whatever lengths say.
func parse(message []byte) (Flow, bool) {
	var f Flow
	if len(message) < headerSize {
		return f, false
	}
	attributes(message[headerSize:], func(kind uint16, data []byte) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			f.Protocol = readTuple(data, &f.Original)
		case nl.CTA_TUPLE_REPLY:
			readTuple(data, &f.Reply)
		}
	})
	return f, f.Original.Source.Addr().IsValid() && f.Reply.Source.Addr().IsValid()
}

func readTuple(data []byte, t *Tuple) (protocol uint8) {
	var source, destination netip.Addr
	var from, to uint16
	attributes(data, func(kind uint16, data []byte) {
		switch kind {
		case nl.CTA_TUPLE_IP:
			attributes(data, func(kind uint16, data []byte) {
				a, _ := netip.AddrFromSlice(data)
				switch kind {
				case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
					source = a
				case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
					destination = a
				}
			})
		case nl.CTA_TUPLE_PROTO:
			attributes(data, func(kind uint16, data []byte) {
				switch {
				case kind == nl.CTA_PROTO_NUM && len(data) == 1:
					protocol = data[0]
				case kind == nl.CTA_PROTO_SRC_PORT && len(data) == 2:
					from = binary.BigEndian.Uint16(data)
				case kind == nl.CTA_PROTO_DST_PORT && len(data) == 2:
					to = binary.BigEndian.Uint16(data)
				}
			})
		}
	})
	t.Source, t.Destination = netip.AddrPortFrom(source, from), netip.AddrPortFrom(destination, to)
	return protocol
}

// attributes calls a function with each attribute. A length that is none ends it.
func attributes(b []byte, each func(kind uint16, data []byte)) {
	for len(b) >= 4 {
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])&0x3fff // without flags
		if length < 4 || length > len(b) {
			return
		}
		each(kind, b[4:length])
		b = b[min((length+3)&^3, len(b)):]
	}
}
