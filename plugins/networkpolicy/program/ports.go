package program

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// portRange is a range of ports of a protocol; protocol 0: of all, low and high 0: all.
type portRange struct {
	protocol  uint8
	low, high uint16
}

type namedPort struct {
	name     string
	protocol uint8
}

// ports are those of one rule of a policy.
type ports struct {
	numbers []portRange
	named   []namedPort
}

// Protocol is the number of a protocol by the name that the API has for it.
func Protocol(p corev1.Protocol) (uint8, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return TCP, true
	case corev1.ProtocolUDP:
		return UDP, true
	case corev1.ProtocolSCTP:
		return SCTP, true
	}
	return 0, false
}

// portsOf are the ports of one rule: no port is every port of every protocol. What the API
// refuses allows nothing.
func portsOf(list []networkingv1.NetworkPolicyPort) *ports {
	out := &ports{}
	if len(list) == 0 {
		out.numbers = []portRange{{}}
		return out
	}
	for i := range list {
		p := &list[i]
		protocol := TCP
		if p.Protocol != nil {
			known := false
			if protocol, known = Protocol(*p.Protocol); !known {
				continue
			}
		}
		switch {
		case p.Port == nil:
			out.numbers = append(out.numbers, portRange{protocol: protocol})
		case p.Port.Type == intstr.String:
			if name := (namedPort{p.Port.StrVal, protocol}); name.name != "" {
				out.named = append(out.named, name)
			}
		default:
			low, high := p.Port.IntVal, p.Port.IntVal
			if p.EndPort != nil {
				high = *p.EndPort
			}
			if low >= 1 && low <= high && high <= 65535 {
				out.numbers = append(out.numbers, portRange{protocol, uint16(low), uint16(high)})
			}
		}
	}
	out.numbers = mergedPorts(out.numbers)
	slices.SortFunc(out.named, func(a, b namedPort) int {
		return cmp.Or(strings.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol))
	})
	out.named = slices.Compact(out.named)
	return out
}

// mergedPorts are the same ports in ranges that do not touch, in order.
func mergedPorts(list []portRange) []portRange {
	slices.SortFunc(list, func(a, b portRange) int {
		if a.protocol != b.protocol {
			return int(a.protocol) - int(b.protocol)
		}
		if a.low != b.low {
			return int(a.low) - int(b.low)
		}
		return int(b.high) - int(a.high)
	})
	var out []portRange
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1].protocol == r.protocol {
			last := &out[n-1]
			if last.high == 0 { // all of the protocol
				continue
			}
			if int(r.low) <= int(last.high)+1 {
				last.high = max(last.high, r.high)
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// names are the named ports, to look them up.
func (p *ports) names() map[namedPort]bool {
	out := make(map[namedPort]bool, len(p.named))
	for _, n := range p.named {
		out[n] = true
	}
	return out
}

// text is the same for equal named ports.
func (p *ports) text() string { return fmt.Sprint(p.named) }
