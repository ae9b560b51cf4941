package layer2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/arp"
)

var broadcast = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// arpLink is a link with the packets of ARP.
type arpLink struct {
	client *arp.Client
	own    net.HardwareAddr
	ip     netip.Addr // of this machine
}

// openARP opens a socket for ARP alone on an interface of the type Ethernet.
func openARP(ifi *net.Interface, ip netip.Addr) (*arpLink, error) {
	client, err := arp.Dial(ifi)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket for ARP on %s: %w", ifi.Name, err)
	}
	return &arpLink{client: client, own: ifi.HardwareAddr, ip: ip}, nil
}

func (l *arpLink) send(op arp.Operation, sender netip.Addr, hardware net.HardwareAddr, target netip.Addr, to net.HardwareAddr) error {
	p, err := arp.NewPacket(op, l.own, sender, hardware, target)
	if err != nil {
		return err
	}
	return l.client.WriteTo(p, to)
}

// Join implements link: questions of ARP reach every machine.
func (l *arpLink) Join(netip.Addr) error { return nil }

// Leave implements link.
func (l *arpLink) Leave(netip.Addr) {}

// Probe implements link.
func (l *arpLink) Probe(ip netip.Addr) error {
	return l.send(arp.OperationRequest, netip.IPv4Unspecified(), make(net.HardwareAddr, 6), ip, broadcast)
}

// Ask implements link.
func (l *arpLink) Ask(ip netip.Addr) error {
	return l.send(arp.OperationRequest, l.ip, make(net.HardwareAddr, 6), ip, broadcast)
}

// Announce implements link. A request about one's own address is what all systems learn from.
func (l *arpLink) Announce(ip netip.Addr) error {
	return l.send(arp.OperationRequest, ip, make(net.HardwareAddr, 6), ip, broadcast)
}

// Answer implements link.
func (l *arpLink) Answer(ip netip.Addr, q heard) error {
	return l.send(arp.OperationReply, ip, q.from, q.sender, q.from)
}

// read hands packets over until ctx ends and the socket is closed, or until that fails.
func (l *arpLink) read(ctx context.Context, out chan<- heard) error {
	for {
		p, frame, err := l.client.Read()
		var fault net.Error
		switch {
		case err != nil && ctx.Err() != nil:
			return nil
		case errors.As(err, &fault):
			return fmt.Errorf("read ARP packets: %w", err)
		case err != nil:
			continue // it is malformed
		}
		if len(p.SenderHardwareAddr) != len(l.own) || p.HardwareType != 1 {
			continue
		}
		foreign := string(frame.Source) != string(p.SenderHardwareAddr)
		select {
		case out <- heard{question: p.Operation == arp.OperationRequest, foreign: foreign, from: p.SenderHardwareAddr, sender: p.SenderIP, target: p.TargetIP}:
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *arpLink) Close() error { return l.client.Close() }
