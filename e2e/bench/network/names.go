package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"pintle.dev/pintle/e2e/bench/rig"
	"pintle.dev/pintle/e2e/cluster"
)

const (
	// askers ask at the same time, each one question after the other.
	askers = 32
	// askTurn is how long one server is asked before the other one has its turn.
	askTurn = 2 * time.Second
	// askTurns of each server make a round.
	askTurns = 3
	// coreDNSAddress is where CoreDNS alone listens, upstreamAddress where both ask for names
	// outside of the cluster.
	coreDNSAddress  = cluster.NodeIP + ":10154"
	upstreamAddress = cluster.NodeIP + ":10155"
	// freshAddress is where it listens besides, without a cache of the cluster's names.
	freshAddress = cluster.NodeIP + ":10156"
)

// corefile is what kubeadm gives CoreDNS, without what only other servers ask it.
const corefile = `.:10154 {
	bind ` + cluster.NodeIP + `
	errors
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig KUBECONFIG
		pods insecure
		fallthrough in-addr.arpa ip6.arpa
		ttl 30
	}
	prometheus 127.0.0.1:0
	forward . ` + upstreamAddress + `
	cache 30
	loop
	loadbalance
}
.:10156 {
	bind ` + cluster.NodeIP + `
	errors
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig KUBECONFIG
		pods insecure
		fallthrough in-addr.arpa ip6.arpa
		ttl 30
	}
	prometheus 127.0.0.1:0
	forward . ` + upstreamAddress + `
	cache 30 {
		disable success cluster.local
		disable denial cluster.local
	}
	loadbalance
}
`

// nameFigures compare the bundle dns with CoreDNS alone, both with the services of one cluster.
func (o options) nameFigures(ctx context.Context) (_ []rig.Figure, err error) {
	b, err := startBed(ctx, "bench-names")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	upstream, err := serveNames(b.network)
	if err != nil {
		return nil, err
	}
	defer upstream()
	own, err := dnsAddress(ctx, b.cluster)
	if err != nil {
		return nil, err
	}
	pid, err := processOf(b.cluster, "dns")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "Corefile")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(corefile, "KUBECONFIG", b.cluster.Kubeconfig)), 0o600); err != nil {
		return nil, err
	}
	bin, err := cluster.Bin()
	if err != nil {
		return nil, err
	}
	ready := func(context.Context) error { return answers(b.network, coreDNSAddress, inside) }
	alone, err := rig.StartIn(ctx, b.network, filepath.Join(bin, "coredns"), b.dir, ready, "-conf", file)
	if err != nil {
		return nil, fmt.Errorf("%w; make bench-network builds it", err)
	}
	defer func() { err = errors.Join(err, alone.Stop(syscall.SIGTERM)) }()
	sides := []side{{own, pid}, {coreDNSAddress, alone.Pid()}}
	fmt.Printf("  %s questions to DNS\n", time.Now().Format(time.TimeOnly))
	outside, err := o.compareNames(ctx, b.network, "a name from the cache", 0.95, "www.example.com.", sides)
	if err != nil {
		return nil, err
	}
	services, err := o.compareNames(ctx, b.network, "a service of the cluster", 0.95, inside, []side{sides[0], {freshAddress, alone.Pid()}})
	if err != nil {
		return nil, err
	}
	// CoreDNS alone has this from its cache, up to 30 seconds late; the bundle looks it up each time.
	late, err := o.compareNames(ctx, b.network, "a service, alone from the cache", 0, inside, sides)
	return append(append(outside, services...), late...), err
}

// inside is a name that each cluster has.
const inside = "kubernetes.default.svc.cluster.local."

// compareNames asks both sides in turns, ours first.
func (o options) compareNames(ctx context.Context, n *cluster.Network, what string, goal float64, name string, sides []side) ([]rig.Figure, error) {
	raw, err := question(name)
	if err != nil {
		return nil, err
	}
	got := make([][]turn, len(sides))
	for range o.rounds * askTurns {
		for i, s := range sides {
			if err := answers(n, s.address, name); err != nil {
				return nil, fmt.Errorf("ask %s for %s: %w", s.address, name, err)
			}
			t, err := s.take(ctx, askers, askTurn, func(until time.Time) ([]float64, error) { return askInTurn(ctx, n, s.address, raw, until) })
			if err != nil {
				return nil, fmt.Errorf("ask %s for %s: %w", s.address, name, err)
			}
			got[i] = append(got[i], t)
		}
	}
	of := func(i int, value func(turn) float64) []float64 { return column(got[i], value) }
	f := rig.Beside("DNS, "+what+", per core", "1/s", "CoreDNS alone", goal, of(0, perCoreOf), of(1, perCoreOf))
	f.Rounds, f.Peer.Rounds = nil, nil // dozens of turns
	return []rig.Figure{f.With("%.0f answers a second, p99 %.2f ms; alone %.0f, %.2f ms",
		rig.Median(of(0, rateOf)), rig.Median(of(0, p99Of)), rig.Median(of(1, rateOf)), rig.Median(of(1, p99Of)))}, nil
}

// dnsAddress is where the bundle dns says that it answers.
func dnsAddress(ctx context.Context, c *cluster.Cluster) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.AwaitLog(ctx, "CoreDNS answers"); err != nil {
		return "", err
	}
	var address, port string
	for field := range strings.FieldsSeq(c.Log(1000)) {
		if v, ok := strings.CutPrefix(field, "address="); ok {
			address = v
		}
		if v, ok := strings.CutPrefix(field, "port="); ok && address == cluster.NodeIP && port == "" {
			port = v
		}
	}
	if port == "" {
		return "", errors.New("the log does not say where CoreDNS answers")
	}
	return net.JoinHostPort(address, port), nil
}

// processOf is that of a bundle in a cluster.
func processOf(c *cluster.Cluster, bundle string) (int, error) {
	all, err := rig.Weigh(c.Pid())
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all, func(p rig.Process) bool { return p.Name == bundle })
	if i < 0 {
		return 0, fmt.Errorf("no process of the bundle %s", bundle)
	}
	return all[i].PID, nil
}

// question asks for the address of a name.
func question(name string) ([]byte, error) {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 1, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
	return m.Pack()
}

// exchange asks once. An answer without an address is an error.
func exchange(conn net.Conn, raw, buffer []byte) error {
	if _, err := conn.Write(raw); err != nil {
		return err
	}
	size, err := conn.Read(buffer)
	if err != nil {
		return err
	}
	if size < 12 || dnsmessage.RCode(buffer[3]&0xf) != dnsmessage.RCodeSuccess || buffer[7] == 0 {
		return errors.New("the answer has no address")
	}
	return nil
}

// answers reports whether a server knows the name.
func answers(n *cluster.Network, address, name string) error {
	raw, err := question(name)
	if err != nil {
		return err
	}
	conn, err := n.Dial(context.Background(), "udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	return exchange(conn, raw, make([]byte, 2048))
}

// askInTurn asks one question after the other until a time, and returns how long each took, in ms.
func askInTurn(ctx context.Context, n *cluster.Network, address string, raw []byte, until time.Time) (took []float64, err error) {
	conn, err := n.Dial(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(until.Add(5 * time.Second)); err != nil {
		return nil, err
	}
	buffer := make([]byte, 2048)
	for begin := time.Now(); begin.Before(until) && ctx.Err() == nil; {
		if err := exchange(conn, raw, buffer); err != nil {
			return took, err
		}
		end := time.Now()
		took = append(took, end.Sub(begin).Seconds()*1000)
		begin = end
	}
	return took, nil
}

// serveNames answers each question for an address, until it is stopped.
func serveNames(n *cluster.Network) (stop func(), err error) {
	var conn net.PacketConn
	err = n.Do(func() error {
		conn, err = net.ListenPacket("udp", upstreamAddress)
		return err
	})
	if err != nil {
		return nil, err
	}
	var group sync.WaitGroup
	group.Go(func() { // ends with the connection
		buffer := make([]byte, 2048)
		for {
			size, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:size]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 3600},
					Body:   &dnsmessage.AResource{A: [4]byte{198, 51, 100, 1}},
				}}
			}
			if raw, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(raw, from)
			}
		}
	})
	return func() { conn.Close(); group.Wait() }, nil
}
