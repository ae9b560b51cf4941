package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	nft "github.com/google/nftables"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/proxy"
)

// texts writes elements as people read them, sorted.
func texts(f *family, elements map[item]string) []string {
	var out []string
	for i, value := range elements {
		d := definitions[i.set()]
		text := d.name + " " + fields(d.key(f), i.key())
		switch {
		case d.verdicts:
			text += " → " + value
		case d.data != nil:
			text += " → " + fields(d.data(f), []byte(value))
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func fields(list []nft.SetDatatype, b []byte) string {
	var words []string
	for _, t := range list {
		if len(b) < int(t.Bytes) {
			return fmt.Sprintf("%s: too short: %x", t.Name, b)
		}
		switch t.Name {
		case "inet_proto":
			name := strconv.Itoa(int(b[0]))
			for n, number := range protocols {
				if number == b[0] {
					name = strings.ToLower(n)
				}
			}
			words = append(words, name)
		case "inet_service":
			words = append(words, strconv.Itoa(int(binary.BigEndian.Uint16(b))))
		case "mark":
			words = append(words, "#"+strconv.Itoa(int(binary.NativeEndian.Uint32(b))))
		default:
			a, _ := netip.AddrFromSlice(b[:t.Bytes])
			words = append(words, a.String())
		}
		b = b[(t.Bytes+3)&^3:]
	}
	if len(b) > 0 {
		words = append(words, fmt.Sprintf("and %x", b))
	}
	return strings.Join(words, " ")
}

func elementsOf(p plan) map[item]string {
	out := map[item]string{}
	for _, e := range p.elements {
		out[e.item] = e.value
	}
	return out
}

// apply is what a transaction does to a table that holds these elements; it reports whether
// the kernel would take it.
func apply(have map[item]string, changes []change) (map[item]string, bool) {
	out := map[item]string{}
	for i, value := range have {
		out[i] = value
	}
	for _, c := range changes {
		if _, there := out[c.item]; there != c.del {
			return nil, false
		}
		delete(out, c.item)
		if c.add {
			out[c.item] = c.value
		}
	}
	return out, true
}

// serviceSet and endpointsSet are changes of a diff.
func serviceSet(s *proxy.Service) *proxy.Change {
	return &proxy.Change{Change: &contractv1.ProxyChange_ServiceSet{ServiceSet: s}}
}

func serviceRemove(name proxy.Name) []*proxy.Change {
	id := &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name}
	return []*proxy.Change{
		{Change: &contractv1.ProxyChange_ServiceRemove{ServiceRemove: id}},
		{Change: &contractv1.ProxyChange_EndpointsRemove{EndpointsRemove: id}},
	}
}

// endpointsSet sets the endpoints of a service's one port, which is named http; an address
// with a star is on this node.
func endpointsSet(name proxy.Name, protocol string, addresses ...string) *proxy.Change {
	var list []*proxy.Endpoint
	for _, text := range addresses {
		ip, local := strings.CutSuffix(text, "*")
		list = append(list, &proxy.Endpoint{Ip: ip, Port: 8080, Ready: true, Serving: true, Local: local})
	}
	return &proxy.Change{Change: &contractv1.ProxyChange_EndpointsSet{EndpointsSet: &proxy.ServiceEndpoints{
		Name:  &proxy.ServiceName{Namespace: name.Namespace, Name: name.Name},
		Ports: []*proxy.PortEndpoints{{PortName: "http", Protocol: protocol, Endpoints: list}},
	}}}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}
