package table

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// field is a field with the table of its node.
type field struct {
	*truth.Field
	table *Table
	other *nftables.Conn // of somebody else
}

// lay makes the field in network namespaces of its own.
func lay(t *testing.T) *field {
	t.Helper()
	f := &field{Field: truth.Lay(t)}
	must(t, f.Node.Do(func() (err error) {
		if f.table, err = Open(); err != nil {
			return err
		}
		f.other, err = nftables.New(nftables.AsLasting())
		return err
	}))
	t.Cleanup(func() {
		if err := f.table.Close(); err != nil {
			t.Error(err)
		}
		if err := f.other.CloseLasting(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks what the machine lets pass against what policies allow.
func (f *field) holds(t *testing.T, name string, c *program.Cluster, families ...program.Family) {
	t.Helper()
	f.Holds(t, name, c, families...)
}

// TestTruthTables: real packets between pods on one bridge, of another node and from outside
// meet what upstream's tests of network policies have (requirements 21.14 to 21.20). Each
// program follows the one before by what differs.
func TestTruthTables(t *testing.T) {
	f := lay(t)
	for _, tc := range []struct{ name, policy string }{
		{"no policy", ""},
		{"nobody in", "spec: {podSelector: {}}"},
		{"nobody in or out", "spec: {podSelector: {}, policyTypes: [Ingress, Egress]}"},
		{"namespaces and pods", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchLabels: {pod: x}}}, {podSelector: {matchLabels: {pod: z}}}]}]}"},
		{"ports in", "spec: {podSelector: {matchLabels: {pod: x}}, ingress: [{ports: [{port: 81}, {port: 80, protocol: UDP}]}, {ports: [{port: 79, endPort: 80, protocol: SCTP}]}]}"},
		{"protocols in", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}], ports: [{protocol: SCTP}]}]}"},
		{"names in", "spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {}}, {ipBlock: {cidr: 192.0.2.0/24}}], ports: [{port: serve}, {port: wire, protocol: SCTP}]}]}"},
		{"names out", "spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {ns: 'y'}}}], ports: [{port: serve}, {port: serve, protocol: UDP}]}]}"},
		{"blocks in", "spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [10.244.1.0/24]}}, {ipBlock: {cidr: '::/0', except: ['fd00:2::/64', '2001:db8::/32']}}]}]}"},
		{"blocks out", "spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.1.21/32]}}], ports: [{port: 80, endPort: 81}]}]}"},
		{"everybody", "spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}"},
		{"one's own", "metadata: {namespace: 'y'}\nspec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}], egress: [{to: [{podSelector: {}}]}]}"},
		{"none again", ""},
	} {
		c := truth.World()
		if tc.policy != "" {
			c = truth.World(tc.policy)
		}
		must(t, f.table.Apply(program.Compile(c)))
		f.holds(t, tc.name, c, program.IP4, program.IP6)
	}
	if exists, err := f.table.Exists(); err != nil || exists {
		t.Errorf("without policies there is a table: %t, %v", exists, err)
	}
}

// TestChanceOnTheWire: policies by chance, one after the other, with labels that flap.
func TestChanceOnTheWire(t *testing.T) {
	f := lay(t)
	r := truth.Chance{Rand: rand.New(rand.NewPCG(7, 7))}
	c := truth.World()
	for step := range 6 {
		c.Policies = nil
		for i := range 2 + r.IntN(5) {
			c.Policies = append(c.Policies, r.Policy(i))
		}
		c.Pods[r.IntN(len(c.Pods))].Labels = map[string]string{"pod": r.One("x", "y", "z")}
		must(t, f.table.Apply(program.Compile(c)))
		f.holds(t, fmt.Sprint("step ", step), c, []program.Family{program.IP4, program.IP6}[step%2])
	}
}

const nobody = "spec: {podSelector: {}, policyTypes: [Ingress, Egress]}"

// TestConnectionsStay: what was allowed goes on when a policy forbids it; a new connection
// does not begin.
func TestConnectionsStay(t *testing.T) {
	f := lay(t)
	// As a proxy's rules do, this has the kernel track connections.
	must(t, f.table.Apply(program.Compile(truth.World(strings.Replace(nobody, "spec", "metadata: {namespace: z}\nspec", 1)))))
	var c net.Conn
	must(t, f.Hosts["x/x"].Do(func() (err error) {
		c, err = net.DialTimeout("tcp", netip.AddrPortFrom(truth.Address("x/y", program.IP4), 80).String(), time.Minute)
		return err
	}))
	defer c.Close()
	say := func(when string) {
		t.Helper()
		must(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
		b := make([]byte, 1)
		if _, err := c.Write([]byte("!")); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := c.Read(b); err != nil || b[0] != '!' {
			t.Errorf("%s: %q %v", when, b, err)
		}
	}
	say("without a policy of its own")
	must(t, f.table.Apply(program.Compile(truth.World(nobody))))
	say("with a policy")
	f.holds(t, "new ones", truth.World(nobody), program.IP4)
}

// TestNodeReachesPods: what a node and its pods send each other passes, whatever policies say
// (requirement 21.16): probes do.
func TestNodeReachesPods(t *testing.T) {
	f := lay(t)
	must(t, f.Node.Serve([]program.Family{program.IP4, program.IP6}, 80))
	must(t, f.table.Apply(program.Compile(truth.World(nobody, strings.Replace(nobody, "spec", "metadata: {namespace: 'y'}\nspec", 1)))))
	for _, family := range []program.Family{program.IP4, program.IP6} {
		gateway := netip.MustParseAddr("10.244.1.1")
		if family == program.IP6 {
			gateway = netip.MustParseAddr("fd00:1::1")
		}
		for _, protocol := range []uint8{program.TCP, program.UDP, program.SCTP} {
			for _, pod := range []string{"x/x", "y/y"} {
				if !truth.Probe(t.Context(), f.Node, f.Hosts[pod], truth.Address(pod, family), protocol, 80, true) {
					t.Errorf("the node does not reach %s by protocol %d, IPv%d", pod, protocol, family)
				}
				if !truth.Probe(t.Context(), f.Hosts[pod], f.Node, gateway, protocol, 80, true) {
					t.Errorf("%s does not reach the node by protocol %d, IPv%d", pod, protocol, family)
				}
			}
		}
	}
}

// TestLink: pods of one bridge have addresses that no policy names, and broadcasts. With a
// policy they reach no isolated pod by these; without one they do.
func TestLink(t *testing.T) {
	f := lay(t)
	asker, isolated := f.Hosts["y/y"], f.Hosts["x/x"]
	inner := truth.At(t, asker)
	link, err := inner.LinkByName("eth0")
	must(t, err)
	zone := strconv.Itoa(link.Attrs().Index)
	local := linkLocal(t, isolated).WithZone(zone)
	groups := []netip.AddrPort{
		netip.AddrPortFrom(netip.MustParseAddr("255.255.255.255"), 80), netip.AddrPortFrom(netip.MustParseAddr("224.0.0.1"), 80),
		netip.AddrPortFrom(netip.MustParseAddr("ff02::1").WithZone(zone), 80),
	}
	answers := []netip.Addr{truth.Address("x/x", program.IP4), truth.Address("x/x", program.IP4), local.WithZone("")}
	four := truth.World("spec: {podSelector: {matchLabels: {pod: x}}}")
	four.Ranges = four.Ranges[:1]
	for _, p := range four.Pods {
		p.Addresses = p.Addresses[:1]
	}
	for _, tc := range []struct {
		name string
		c    *program.Cluster
		want bool
	}{
		{"no policy", truth.World(), true}, {"nobody in", truth.World("spec: {podSelector: {matchLabels: {pod: x}}}"), false},
		{"none again", truth.World(), true}, {"nobody in, of IPv4 alone", four, false},
	} {
		must(t, f.table.Apply(program.Compile(tc.c)))
		for _, protocol := range []uint8{program.TCP, program.UDP} {
			if !truth.Probe(t.Context(), asker, isolated, local, protocol, 80, tc.want) {
				t.Errorf("%s: protocol %d by %s: want %t", tc.name, protocol, local, tc.want)
			}
		}
		for i, group := range groups {
			if !truth.ProbeGroup(t.Context(), asker, group, answers[i], tc.want) {
				t.Errorf("%s: by %s: want an answer of %s: %t", tc.name, group, answers[i], tc.want)
			}
		}
		// Neighbours are found all the same, those that were forgotten too.
		neighbours, err := inner.NeighList(link.Attrs().Index, netlink.FAMILY_V6)
		must(t, err)
		for i := range neighbours {
			_ = inner.NeighDel(&neighbours[i]) // some go by themselves
		}
		if !truth.Probe(t.Context(), asker, f.Hosts["y/x"], truth.Address("y/x", program.IP6), program.TCP, 80, true) {
			t.Errorf("%s: a pod that is not isolated is not reached", tc.name)
		}
	}
}

// linkLocal is the address that the kernel gave a host.
func linkLocal(t *testing.T, h *truth.Host) netip.Addr {
	t.Helper()
	inner := truth.At(t, h)
	link, err := inner.LinkByName("eth0")
	must(t, err)
	addresses, err := inner.AddrList(link, netlink.FAMILY_V6)
	must(t, err)
	for _, a := range addresses {
		if address, ok := netip.AddrFromSlice(a.IP); ok && address.IsLinkLocalUnicast() {
			return address
		}
	}
	t.Fatal("the kernel gave it no address of the link")
	return netip.Addr{}
}

// TestHealed: whatever somebody else does to the table is seen, and put right.
func TestHealed(t *testing.T) {
	f := lay(t)
	c := truth.World("spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: 'y'}}}], ports: [{port: serve}]}]}")
	p := program.Compile(c)
	must(t, f.table.Apply(p))
	if disturbed, err := f.table.Disturbed(); err != nil || disturbed {
		t.Fatalf("nobody did anything: %t, %v", disturbed, err)
	}
	table := &nftables.Table{Name: Name, Family: nftables.TableFamilyINet}
	for name, harm := range map[string]func(){
		"the table is deleted": func() { f.other.DelTable(table) },
		"all is deleted":       func() { f.other.FlushRuleset() },
		"a chain is emptied":   func() { f.other.FlushChain(&nftables.Chain{Table: table, Name: program.Ingress}) },
		"a set is emptied":     func() { f.other.FlushSet(&nftables.Set{Table: table, Name: "pods-ingress-4"}) },
		"a rule lets all pass": func() {
			f.other.InsertRule(&nftables.Rule{Table: table, Chain: &nftables.Chain{Name: program.Ingress}, Exprs: expressions(program.Ingress, &program.Rule{Verdict: program.Accept})})
		},
		"a table of another": func() { f.other.AddTable(&nftables.Table{Name: "another", Family: nftables.TableFamilyINet}) },
	} {
		harm()
		must(t, f.other.Flush())
		disturbed, err := f.table.Disturbed()
		if err != nil || !disturbed {
			t.Errorf("%s: seen: %t, %v", name, disturbed, err)
		}
		must(t, f.table.Apply(p))
		if disturbed, err := f.table.Disturbed(); err != nil || disturbed {
			t.Errorf("%s: it is put right and still disturbed: %t, %v", name, disturbed, err)
		}
		f.holds(t, name, c, program.IP4)
	}
	// In another order of these, what deletes all comes after the table of another.
	f.other.AddTable(&nftables.Table{Name: "another", Family: nftables.TableFamilyINet})
	must(t, f.other.Flush())
	must(t, f.table.Remove())
	if exists, err := f.table.Exists(); err != nil || exists {
		t.Errorf("the table is there after its removal: %t, %v", exists, err)
	}
	tables, err := f.other.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil || !slices.ContainsFunc(tables, func(x *nftables.Table) bool { return x.Name == "another" }) {
		t.Errorf("the table of another is gone: %v, %v", tables, err)
	}
}

// TestThousandPolicies: a thousand policies are one transaction, and what changes after that
// is sent alone. Very long lists of one namespace harm no other.
func TestThousandPolicies(t *testing.T) {
	f := lay(t)
	c := truth.Large(1000, 2000, 200)
	begun := time.Now()
	p := program.Compile(c)
	compiled := time.Now()
	must(t, f.table.Apply(p))
	t.Logf("compiled in %s, loaded in %s: %d chains, %d sets", compiled.Sub(begun), time.Since(compiled), len(p.Chains), len(p.Sets))
	for _, pod := range c.Pods[:3] {
		pod.Labels = map[string]string{"app": "a1"}
	}
	begun = time.Now()
	p = program.Compile(c)
	compiled = time.Now()
	must(t, f.table.Apply(p))
	t.Logf("three labels change: compiled in %s, loaded in %s", compiled.Sub(begun), time.Since(compiled))
	var blocks, ports []string
	for i := range 4000 {
		blocks = append(blocks, fmt.Sprintf("{ipBlock: {cidr: %d.%d.7.0/24, except: [%d.%d.7.64/26]}}", 1+i/250, i%250, 1+i/250, i%250))
		ports = append(ports, fmt.Sprintf("{port: %d}", 1000+2*i))
	}
	world := truth.World("metadata: {name: huge}\nspec: {podSelector: {}, ingress: [{from: ["+strings.Join(blocks, ",")+"]}, {from: [{podSelector: {}}], ports: ["+strings.Join(ports, ",")+", {port: 80}]}]}",
		"metadata: {namespace: 'y'}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}")
	begun = time.Now()
	must(t, f.table.Apply(program.Compile(world)))
	t.Logf("a policy of 4000 ranges and 4000 ports: %s", time.Since(begun))
	f.holds(t, "long lists", world, program.IP4)
}

// TestRefusedChangesNothing: a program that the kernel refuses leaves the one before in force.
func TestRefusedChangesNothing(t *testing.T) {
	f := lay(t)
	c := truth.World("spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: 'y'}}}]}]}")
	must(t, f.table.Apply(program.Compile(c)))
	wrong := program.Compile(truth.World(nobody))
	wrong.Chains[program.Ingress] = append(wrong.Chains[program.Ingress], program.Rule{Verdict: program.Jump, Target: "absent"})
	if err := f.table.Apply(wrong); err == nil {
		t.Error("a rule that leads nowhere was taken")
	}
	f.holds(t, "after a refusal", c, program.IP4)
	must(t, f.table.Apply(program.Compile(c)))
	f.holds(t, "whole again", c, program.IP4)
}

// TestPieces: a program that is too large for one transaction is made in several, and is the
// same in the end: at first, as a change of another one, and after somebody else's change.
// Packets meet what they met before until all of it is there.
func TestPieces(t *testing.T) {
	before := most
	t.Cleanup(func() { most = before })
	most = 2000
	f := lay(t)
	var blocks []string
	for i := range 1000 {
		blocks = append(blocks, fmt.Sprintf("{ipBlock: {cidr: 203.%d.%d.0/25}}", i/250, i%250))
	}
	one := truth.World("spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}], ports: [{port: 80}, {port: serve}]}]}",
		"metadata: {namespace: 'y'}\nspec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.244.0.0/16, except: [10.244.1.31/32]}}, "+strings.Join(blocks, ",")+"]}]}")
	two := truth.World("metadata: {name: other}\nspec: {podSelector: {matchLabels: {pod: x}}, ingress: [{from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {ns: z}}}], ports: [{port: 81}, {port: serve, protocol: UDP}]}]}",
		"metadata: {namespace: 'y'}\nspec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {ns: x}}}]}]}")
	table := func(name string) *nftables.Table {
		return &nftables.Table{Name: name, Family: nftables.TableFamilyINet}
	}
	last := truth.World()
	must(t, f.table.Apply(program.Compile(last))) // from now on it is known that there is no table
	for _, step := range []struct {
		name string
		c    *program.Cluster
		harm func()
		shut bool // packets meet no table that is known
	}{
		{"at first", one, nil, false},
		{"a change", two, nil, false},
		{"another change", one, nil, false},
		{"after another's change", two, func() { f.other.AddChain(&nftables.Chain{Table: table("pintle-networkpolicy"), Name: "others"}) }, false},
		{"after an attempt that failed", one, func() {
			for _, name := range names {
				f.other.AddChain(&nftables.Chain{Table: f.other.AddTable(table(name)), Name: "left"})
			}
		}, false},
		{"after all was deleted", two, func() { f.other.FlushRuleset() }, true},
	} {
		if step.harm != nil {
			step.harm()
			must(t, f.other.Flush())
			if _, err := f.table.Disturbed(); err != nil {
				t.Error(err)
			}
		}
		if f.table.current == nil {
			var err error
			f.table.name, err = f.table.met()
			must(t, err)
		}
		// As Apply does it, with a look at what passes between two transactions.
		w, sent, wrong := &writer{next: program.Compile(step.c)}, 0, 0
		if !f.table.write(w, func(w *writer) error {
			sent++
			err := f.table.send(w)
			if (sent == 2 || sent == 8) && wrong == 0 {
				for _, ask := range [][2]string{{"y/y", "x/x"}, {"z/x", "x/x"}, {"x/y", "x/x"}, {"y/x", "z/x"}} {
					k := truth.Packet{Source: truth.Address(ask[0], program.IP4), Destination: truth.Address(ask[1], program.IP4), Protocol: program.TCP, Port: 81}
					want := truth.Allowed(last, k) && !step.shut
					if !truth.Probe(t.Context(), f.Hosts[ask[0]], f.Hosts[ask[1]], k.Destination, k.Protocol, k.Port, want) {
						wrong++
						t.Errorf("%s: after %d transactions %s to %s: want %t", step.name, sent, ask[0], ask[1], want)
					}
				}
			}
			return err
		}) {
			t.Fatalf("%s: nothing to do", step.name)
		}
		must(t, w.err)
		if sent < 3 || w.size > 20_000 {
			t.Errorf("%s: %d transactions before the last one of %d bytes", step.name, sent, w.size)
		}
		must(t, f.table.send(w))
		f.table.current, f.table.name = w.next, w.table
		var err error
		f.table.generation, err = f.table.generationNow()
		must(t, err)
		last = step.c
		f.holds(t, step.name, step.c, program.IP4)
		list, err := f.other.ListTablesOfFamily(nftables.TableFamilyINet)
		must(t, err)
		if len(list) != 1 || list[0].Name != f.table.name {
			t.Errorf("%s: %d tables, want %s alone", step.name, len(list), f.table.name)
		}
	}
	must(t, f.table.Apply(program.Compile(one)))
	if disturbed, err := f.table.Disturbed(); err != nil || disturbed {
		t.Errorf("its own changes are taken for another's: %t, %v", disturbed, err)
	}
	f.holds(t, "by Apply", one, program.IP4)
	// What fits is a change in place again, whichever table it is, and so is the end.
	most = before
	f.table.current = nil
	must(t, f.table.Apply(program.Compile(two)))
	f.holds(t, "in one transaction", two, program.IP4)
	must(t, f.table.Apply(&program.Program{}))
	list, err := f.other.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil || len(list) > 0 {
		t.Errorf("after its removal there are tables: %v, %v", list, err)
	}
}

// TestRefusedPieces: where the kernel refuses one of several transactions, packets meet what they
// met before, and what was begun is no table that enforces anything.
func TestRefusedPieces(t *testing.T) {
	before := most
	t.Cleanup(func() { most = before })
	f := lay(t)
	c := truth.World("spec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {pod: 'y'}}}]}]}")
	for _, first := range []bool{true, false} {
		wrong := program.Compile(truth.World(nobody))
		wrong.Chains["wrong"] = []program.Rule{{Verdict: program.Jump, Target: "absent"}}
		if first {
			most = 500
			must(t, f.table.Remove())
			must(t, f.table.Apply(&program.Program{}))
		} else {
			most = before
			must(t, f.table.Apply(program.Compile(c)))
			most = 500
		}
		if err := f.table.Apply(wrong); err == nil {
			t.Error("a rule that leads nowhere was taken")
		}
		if exists, err := f.table.Exists(); err != nil || exists == first {
			t.Errorf("a table that packets meet: %t, %v", exists, err)
		}
		if !first {
			f.holds(t, "after a refusal", c, program.IP4)
		}
	}
	must(t, f.table.Apply(program.Compile(c)))
	f.holds(t, "whole again", c, program.IP4)
}

// TestShut: while a table is made in pieces where packets meet none though they should, no new
// connection of pods passes, in the directions that policies isolate; those that were allowed go on.
func TestShut(t *testing.T) {
	p := program.Compile(truth.World(nobody)).Shut()
	for to, want := range map[string]bool{"x/x": false, "y/y": false} {
		k := truth.Packet{Source: netip.MustParseAddr("192.0.2.1"), Destination: truth.Address(to, program.IP4), Protocol: program.TCP, Port: 80}
		if got := truth.Passes(t, p, k); got != want {
			t.Errorf("to %s passes: %t", to, got)
		}
	}
	if p.Chains[program.Ingress][0].Match != program.Established || len(p.Sets) > 0 {
		t.Errorf("%+v", p)
	}
	in := program.Compile(truth.World("spec: {podSelector: {}}")).Shut()
	if !truth.Passes(t, in, truth.Packet{Source: truth.Address("x/x", program.IP4), Destination: netip.MustParseAddr("192.0.2.1"), Protocol: program.TCP, Port: 80}) {
		t.Error("what no policy isolates is closed")
	}
}
