package podnat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// served is a cluster whose pods a and b answer at 8080.
func served(t *testing.T) *cluster {
	t.Helper()
	c := lay(t)
	serve(t, c.pods[ipA], "a", "", 8080)
	serve(t, c.pods[ipB], "b", "", 8080)
	return c
}

// TestHostPorts: who asks a host port, from where, by which address and protocol, reaches the
// pod, which sees the client unless that is beside it.
func TestHostPorts(t *testing.T) {
	c := served(t)
	c.add(t, sandbox("one", ipA,
		port(80, "tcp", ""), port(80, "udp", "0.0.0.0"), port(81, "tcp", nodeIP), port(82, "tcp", "127.0.0.1"), port(83, "TCP", "::ffff:"+nodeIP), port(84, "tcp", nodeIP6)))
	c.add(t, sandbox("two", ipB, port(81, "tcp", secondIP), port(8081, "udp", "")))
	for _, q := range []struct {
		name, from, network, to, want string
	}{
		{"outside", "", "tcp", nodeIP + ":80", "a " + outsideIP},
		{"outside, another address", "", "tcp", secondIP + ":80", "a " + outsideIP},
		{"outside, IPv6", "", "tcp", "[" + nodeIP6 + "]:80", "a " + outsideIP6},
		{"outside, UDP", "", "udp", nodeIP + ":80", "a " + outsideIP},
		{"the other protocol has no such port", "", "udp", nodeIP + ":81", ""},
		{"one port of two addresses, first", "", "tcp", nodeIP + ":81", "a " + outsideIP},
		{"one port of two addresses, second", "", "tcp", secondIP + ":81", "b " + outsideIP},
		{"an address in another form", "", "tcp", nodeIP + ":83", "a " + outsideIP},
		{"one address of IPv6", "", "tcp", "[" + nodeIP6 + "]:84", "a " + outsideIP6},
		{"one address of IPv6 is none of IPv4", "", "tcp", nodeIP + ":84", ""},
		{"a port of 127.0.0.1, from outside", "", "tcp", nodeIP + ":82", ""},
		{"a port that nobody has", "", "tcp", nodeIP + ":85", ""},
		{"the node", "node", "tcp", nodeIP + ":80", "a " + nodeIP},
		{"the node, at localhost", "node", "tcp", "127.0.0.1:80", "a 10.244.0.1"},
		{"the node, at localhost, UDP", "node", "udp", "127.0.0.1:8081", "b 10.244.0.1"},
		{"a port of 127.0.0.1", "node", "tcp", "127.0.0.1:82", "a 10.244.0.1"},
		{"another address of loopback", "node", "tcp", "127.0.0.2:82", ""},
		{"a pod beside it", ipC, "tcp", nodeIP + ":80", "a 10.244.0.1"},
		{"a pod beside it, by the bridge", ipC, "udp", "10.244.0.1:80", "a 10.244.0.1"},
		{"a pod beside it, IPv6", ipC, "tcp", "[" + nodeIP6 + "]:80", "a fd00:244::1"},
		{"a pod itself", ipA, "tcp", nodeIP + ":80", "a 10.244.0.1"},
		{"a pod itself, UDP", ipA, "udp", nodeIP + ":80", "a 10.244.0.1"},
		{"past the host port", ipC, "tcp", ipA + ":8080", "a " + ipC},
	} {
		from := c.outside
		if q.from == "node" {
			from = c.node
		} else if q.from != "" {
			from = c.pods[q.from]
		}
		from.answers(t, q.name, q.network, q.to, q.want)
	}
	c.remove(t, "one")
	c.outside.answers(t, "after the removal", "tcp", nodeIP+":80", "")
	c.outside.answers(t, "the other stays", "tcp", secondIP+":81", "b "+outsideIP)
	c.remove(t, "two")
	c.remove(t, "two") // nothing is left to do
	c.remove(t, "never there")
	if left := c.tables(t); len(left) > 0 {
		t.Errorf("tables %v are left", left)
	}
	c.node.must(t, func() error {
		value, err := os.ReadFile("/proc/sys/net/ipv4/conf/" + bridge + "/route_localnet")
		if got := strings.TrimSpace(string(value)); got != "0" {
			t.Errorf("route_localnet of the bridge is %s", got)
		}
		return err
	})
}

// TestSCTP: a packet of SCTP reaches the pod, by a kernel that need not have the protocol.
func TestSCTP(t *testing.T) {
	c := lay(t)
	c.add(t, sandbox("one", ipA, port(80, "sctp", "")))
	var heard net.PacketConn
	c.pods[ipA].must(t, func() (err error) {
		heard, err = net.ListenPacket("ip4:132", "")
		return err
	})
	defer heard.Close()
	const tag = 4711
	var asks net.Conn
	c.outside.must(t, func() (err error) {
		asks, err = net.Dial("ip4:132", nodeIP)
		return err
	})
	defer asks.Close()
	b := make([]byte, 2000)
	for begun := time.Now(); ; {
		if _, err := asks.Write(association(tag, 80)); err != nil {
			t.Fatal(err)
		}
		if err := heard.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, from, err := heard.ReadFrom(b)
		if err == nil && n >= 20 && binary.BigEndian.Uint32(b[16:]) == tag {
			if to := binary.BigEndian.Uint16(b[2:]); to != 8080 || from.String() != outsideIP {
				t.Errorf("from %s to port %d", from, to)
			}
			return
		}
		if time.Since(begun) > patience {
			t.Fatal("no packet came")
		}
	}
}

// TestLocalhostStaysClosed: a pod that routes 127.0.0.1 to the node reaches nothing that
// listens there, and no host port of it, though the bridge routes it.
func TestLocalhostStaysClosed(t *testing.T) {
	c := served(t)
	serve(t, c.node, "secret", "127.0.0.1", 7000)
	c.add(t, sandbox("one", ipA, port(82, "tcp", "127.0.0.1"), port(82, "udp", "127.0.0.1")))
	thief := c.pods[ipC]
	thief.set(t, "net/ipv4/conf/eth0/route_localnet", "1")
	thief.must(t, func() error { return route("127.0.0.0/8", "10.244.0.1") })
	for _, network := range []string{"tcp", "udp"} {
		thief.answers(t, "a pod", network, "127.0.0.1:7000", "")
		thief.answers(t, "a pod, by a host port", network, "127.0.0.1:82", "")
		c.node.answers(t, "the node", network, "127.0.0.1:7000", "secret 127.0.0.1")
		c.node.answers(t, "the node, by a host port", network, "127.0.0.1:82", "a 10.244.0.1")
	}
	// The door is real: without the rule the pod gets in.
	c.node.must(t, func() error {
		conn, err := nft.New()
		if err != nil {
			return err
		}
		conn.FlushChain(&nft.Chain{Name: "guard", Table: &nft.Table{Name: bridge + "-hostports", Family: nft.TableFamilyIPv4}})
		return conn.Flush()
	})
	thief.answers(t, "a pod, without the guard", "tcp", "127.0.0.1:7000", "secret "+ipC)
	c.remove(t, "one")
	thief.answers(t, "a pod, after the last host port", "tcp", "127.0.0.1:7000", "")
}

// TestFlowsMove: a client that keeps its UDP socket reaches the pod that has the port now.
func TestFlowsMove(t *testing.T) {
	c := served(t)
	var client net.Conn
	c.outside.must(t, func() (err error) {
		client, err = net.Dial("udp", nodeIP+":53")
		return err
	})
	defer client.Close()
	says := func(what, want string) {
		t.Helper()
		var got string
		for begun := time.Now(); time.Since(begun) < patience; {
			if got = exchange(client, time.Second); got != "" {
				break
			}
		}
		if got != want {
			t.Errorf("%s: answered by %q, want %q", what, got, want)
		}
	}
	c.add(t, sandbox("one", ipA, port(53, "udp", "")))
	says("first", "a "+outsideIP)
	c.remove(t, "one")
	if got := exchange(client, silence); got != "" {
		t.Errorf("a pod without the port answers still: %q", got)
	}
	c.add(t, sandbox("two", ipB, port(53, "udp", "")))
	says("moved", "b "+outsideIP)
	c.add(t, sandbox("three", ipA, port(53, "udp", "")))
	says("the later one has it", "a "+outsideIP)
	c.remove(t, "three")
	says("back", "b "+outsideIP)
}

// TestMended: whatever others do to the tables is put right, and nothing is written where
// nothing has to be.
func TestMended(t *testing.T) {
	c := served(t)
	s := sandbox("one", ipA, port(80, "tcp", ""), port(81, "tcp", nodeIP))
	c.add(t, s)
	out := Masquerade{Bridge: bridge, Pods: []netip.Prefix{s.Addresses[0].Masked()}}
	sync := func() (changed bool) {
		t.Helper()
		c.node.must(t, func() error {
			one, damaged, err := c.ports.Sync()
			if err != nil || len(damaged) > 0 {
				t.Errorf("%v %v", damaged, err)
			}
			two, err := out.Sync()
			changed = one || two
			return err
		})
		return changed
	}
	sync()
	before := c.generation(t)
	if sync() || c.generation(t) != before {
		t.Error("rules were written that were there")
	}
	table := &nft.Table{Name: bridge + "-hostports", Family: nft.TableFamilyIPv4}
	element := func(set, key string) (*nft.Set, []nft.SetElement) {
		list, _, err := records(c.ports.Directory).all()
		if err != nil {
			t.Fatal(err)
		}
		shape := c.ports.shape(ipv4, list)
		at := slices.IndexFunc(shape.maps, func(m *addressMap) bool { return m.name == set })
		for k := range shape.maps[at].elements {
			return shape.set(shape.maps[at]), []nft.SetElement{{Key: []byte(k), Val: []byte(key)}}
		}
		return nil, nil
	}
	for name, harm := range map[string]func(conn *nft.Conn) error{
		"all is deleted":       func(conn *nft.Conn) error { conn.FlushRuleset(); return nil },
		"the table is deleted": func(conn *nft.Conn) error { conn.DelTable(table); return nil },
		"the way out is deleted": func(conn *nft.Conn) error {
			conn.DelTable(&nft.Table{Name: bridge + "-masquerade", Family: nft.TableFamilyIPv4})
			return nil
		},
		"a chain is emptied": func(conn *nft.Conn) error { conn.FlushChain(&nft.Chain{Name: "hostports", Table: table}); return nil },
		"the rules of IPv6 are empty": func(conn *nft.Conn) error {
			conn.FlushTable(&nft.Table{Name: table.Name, Family: nft.TableFamilyIPv6})
			return nil
		},
		"an element is deleted": func(conn *nft.Conn) error {
			set, e := element(everywhere, "")
			return conn.SetDeleteElements(set, []nft.SetElement{{Key: e[0].Key}})
		},
		"an element leads elsewhere": func(conn *nft.Conn) error {
			set, e := element(addressed, string(appendPort(net.ParseIP(ipB).To4(), 8080)))
			return errors.Join(conn.SetDeleteElements(set, []nft.SetElement{{Key: e[0].Key}}), conn.SetAddElements(set, e))
		},
		"a rule of another drops all": func(conn *nft.Conn) error {
			conn.InsertRule(&nft.Rule{Table: table, Chain: &nft.Chain{Name: "guard"}, Exprs: []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}, UserData: []byte{0, 200, 1}})
			return nil
		},
		"a chain of another": func(conn *nft.Conn) error { conn.AddChain(&nft.Chain{Name: "another", Table: table}); return nil },
	} {
		c.node.must(t, func() error {
			conn, err := nft.New()
			if err == nil {
				err = harm(conn)
			}
			if err == nil {
				err = conn.Flush()
			}
			return err
		})
		if !sync() {
			t.Errorf("%s: nothing was put right", name)
		}
		if sync() {
			t.Errorf("%s: it was put right twice", name)
		}
		c.outside.answers(t, name, "tcp", nodeIP+":80", "a "+outsideIP)
		c.outside.answers(t, name, "tcp", nodeIP+":81", "a "+outsideIP)
		c.node.must(t, func() error { return c.ports.Check("one", "eth0") })
	}
}

// TestMasquerade: what pods send beyond the cluster has the node's address, and what they
// send to pods of other nodes has their own.
func TestMasquerade(t *testing.T) {
	c := lay(t)
	serve(t, c.outside, "outside", outsideIP, 8080)
	serve(t, c.outside, "remote", remotePod, 8080)
	ranges := Masquerade{Bridge: bridge, Pods: []netip.Prefix{sandbox("x", ipA).Addresses[0].Masked()}}
	pod := c.pods[ipC]
	pod.answers(t, "before", "tcp", outsideIP+":8080", "outside "+ipC)
	c.node.must(t, func() error { _, err := ranges.Sync(); return err })
	pod.answers(t, "outside", "tcp", outsideIP+":8080", "outside "+nodeIP)
	pod.answers(t, "another node's pod, whose range is not known", "udp", remotePod+":8080", "remote "+nodeIP)
	for _, all := range []string{"10.244.0.0/16", "fd00:244::/32", "10.244.0.0/24"} {
		ranges.Others = append(ranges.Others, netip.MustParsePrefix(all))
	}
	c.node.must(t, func() error { _, err := ranges.Sync(); return err })
	pod.answers(t, "another node's pod", "tcp", remotePod+":8080", "remote "+ipC)
	pod.answers(t, "outside", "tcp", outsideIP+":8080", "outside "+nodeIP)
	c.node.must(t, ranges.Remove)
	c.node.must(t, ranges.Remove)
	if left := c.tables(t); len(left) > 0 {
		t.Errorf("tables %v are left", left)
	}
}

// TestKilled: a process that is killed between a record and the table is finished by the next,
// damaged records harm no others, and sandboxes that are gone lose their ports.
func TestKilled(t *testing.T) {
	c := served(t)
	dir := records(c.ports.Directory)
	one, two := sandbox("one", ipA, port(80, "tcp", "")), sandbox("two", ipB, port(81, "tcp", ""))
	one.Turn = 7
	if err := dir.write(one); err != nil { // and killed
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty,eth0.json": "", "cut,eth0.json": `{"id":"cut","interface":"eth0","ports":[{"hostP`, "other,eth0.json": `{"id":"one","interface":"eth0"}`,
		"proto,eth0.json": `{"id":"proto","interface":"eth0","ports":[{"hostPort":1,"containerPort":1,"protocol":"icmp"}]}`,
		"huge,eth0.json":  strings.Repeat(" ", maxRecord+1), "one,eth0.json.tmp": "{",
	} {
		if err := os.WriteFile(filepath.Join(string(dir), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(string(dir), "link,eth0.json")); err != nil {
		t.Fatal(err)
	}
	c.add(t, two)
	c.outside.answers(t, "recorded before", "tcp", nodeIP+":80", "a "+outsideIP)
	c.outside.answers(t, "added", "tcp", nodeIP+":81", "b "+outsideIP)
	c.node.must(t, func() error {
		changed, damaged, err := c.ports.Sync()
		if changed || len(damaged) != 6 {
			t.Errorf("changed %t; damaged: %v", changed, damaged)
		}
		return err
	})
	if err := os.Remove(dir.file("one", "eth0")); err != nil { // and killed
		t.Fatal(err)
	}
	c.node.must(t, func() error { _, _, err := c.ports.Sync(); return err })
	c.outside.answers(t, "removed", "tcp", nodeIP+":80", "")
	c.node.must(t, func() error {
		return c.ports.Keep(func(id, iface string) bool { return id != "two" || iface != "eth0" })
	})
	if left := c.tables(t); len(left) > 0 {
		t.Errorf("tables %v are left", left)
	}
	if err := c.node.do(func() error { return c.ports.Check("two", "eth0") }); err == nil {
		t.Error("a sandbox without a record passes its check")
	}
}

// TestMany: sandboxes that come and go at once all have their ports, and leave nothing.
func TestMany(t *testing.T) {
	c := served(t)
	const sandboxes = 40
	var group sync.WaitGroup
	each := func(f func(i int) error) {
		t.Helper()
		for i := range sandboxes {
			group.Go(func() {
				if err := c.node.do(func() error { return f(i) }); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	name := func(i int) string { return "s" + string(rune('a'+i/26)) + string(rune('a'+i%26)) }
	each(func(i int) error {
		return c.ports.Add(sandbox(name(i), ipA, port(uint16(1000+i), "tcp", ""), port(uint16(1000+i), "udp", nodeIP)))
	})
	for _, i := range []int{0, 17, sandboxes - 1} {
		c.outside.answers(t, name(i), "tcp", net.JoinHostPort(nodeIP, fmt.Sprint(1000+i)), "a "+outsideIP)
		c.outside.answers(t, name(i), "udp", net.JoinHostPort(nodeIP, fmt.Sprint(1000+i)), "a "+outsideIP)
	}
	each(func(i int) error { return c.ports.Remove(name(i), "eth0") })
	if left := c.tables(t); len(left) > 0 {
		t.Errorf("tables %v are left", left)
	}
}
