package nftables

import (
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"
)

// state reads a table from bytes: three bytes an element, of few keys and values, so that two
// tables have much in common.
func state(data []byte) map[item]string {
	out := map[item]string{}
	for ; len(data) >= 3; data = data[3:] {
		id := setID(data[0]) % setCount
		value := ""
		switch {
		case definitions[id].verdicts:
			value = []string{verdictDrop, chainReject, "service-cluster-1", "service-cluster-2"}[data[2]%4]
		case definitions[id].data != nil:
			value = string(rune('a' + data[2]%4))
		}
		out[newItem(id, []byte{data[1] % 16})] = value
	}
	return out
}

// table is a map as elements.
type table map[item]string

func (t table) get(i item) (string, bool)    { value, ok := t[i]; return value, ok }
func (t table) all() iter.Seq2[item, string] { return maps.All(t) }

// FuzzDiff: whatever two tables hold, the kernel takes the difference, in parts of any size, and
// the first is the second afterwards. What both hold is there after each part.
func FuzzDiff(f *testing.F) {
	f.Add([]byte{}, []byte{}, 1)
	f.Add([]byte{1, 1, 2, 8, 1, 0}, []byte{1, 1, 3, 8, 1, 1}, 1)
	f.Add([]byte{1, 1, 2, 8, 1, 0, 8, 2, 0}, []byte{1, 1, 3}, 2)
	f.Add([]byte(strings.Repeat("abcdefgh", 60)), []byte(strings.Repeat("hgfdba", 70)), 5)
	f.Fuzz(func(t *testing.T, a, b []byte, limit int) {
		have, want := state(a), state(b)
		whole := transaction{layout: true, chains: []chain{sharedPick(byService, false, 1), sharedPick(byService, false, 2)}, changes: diff(have, table(want))}
		got := have
		var chains, layouts int
		for _, part := range whole.split(max(1, limit%64), 1+max(0, limit)%2) {
			var ok bool
			if got, ok = apply(got, part.changes); !ok {
				t.Fatalf("the kernel would refuse %+v", part)
			}
			if max(1, limit%64) < len(part.changes) && len(whole.changes) > max(1, limit%64) {
				t.Fatalf("%d changes in a part of at most %d", len(part.changes), limit%64)
			}
			chains += len(part.chains)
			if part.layout {
				layouts++
			}
			for i := range have {
				if _, stays := want[i]; !stays {
					continue
				}
				if _, there := got[i]; !there {
					t.Fatalf("%s %x is away in between", i.set(), i.key())
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if chains != 2 || layouts != 1 {
			t.Fatalf("%d chains and %d layouts", chains, layouts)
		}
		if again := diff(got, table(want)); len(again) != 0 {
			t.Fatalf("a second difference: %+v", again)
		}
	})
}

// TestSplit: chains and endpoints come before what leads to them, and endpoints go after it.
func TestSplit(t *testing.T) {
	key := func(id setID, n byte) item { return newItem(id, []byte{n}) }
	have := map[item]string{key(clusterEndpoints, 1): "a", key(serviceIPs, 1): "old", key(clusterEndpoints, 3): "c"}
	want := map[item]string{key(clusterEndpoints, 2): "b", key(serviceIPs, 1): "new", key(clusterEndpoints, 3): "d"}
	parts := transaction{chains: []chain{{name: "new"}}, changes: diff(have, table(want))}.split(1, 10)
	var got []string
	for _, p := range parts {
		for _, c := range p.chains {
			got = append(got, "chain "+c.name)
		}
		for _, c := range p.changes {
			text := c.set().String()
			if c.del {
				text += " del"
			}
			if c.add {
				text += " add " + c.value
			}
			got = append(got, text)
		}
	}
	same(t, "parts", got, []string{"chain new", "endpoints add b", "endpoints del add d", "service-ips del add new", "endpoints del"})
	// Source ranges hold before an address is served, and until it is served no more.
	have = map[item]string{key(serviceIPs, 1): "old", key(firewallIPs, 1): "old"}
	want = map[item]string{key(serviceIPs, 2): "new", key(firewallIPs, 2): "new"}
	got = nil
	for _, p := range (transaction{changes: diff(have, table(want))}).split(1, 10) {
		for _, c := range p.changes {
			got = append(got, fmt.Sprint(c.set(), " add=", c.add))
		}
	}
	same(t, "source ranges", got, []string{"firewall-ips add=true", "service-ips add=false", "service-ips add=true", "firewall-ips add=false"})
	if parts := (transaction{rebuild: true, changes: diff(have, table(want))}).split(1, 1); len(parts) != 1 {
		t.Errorf("a rebuild in %d parts", len(parts))
	}
}

// TestReadVerdict: what the kernel, or a program that pretends to be it, answers is read within
// its bounds.
func TestReadVerdict(t *testing.T) {
	goTo := []byte{8, 0, 1, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 2, 0, 'a', 'b', 0, 0}
	if code, chain := readVerdict(goTo); code != -4 || chain != "ab" {
		t.Errorf("%d %q", code, chain)
	}
	for _, b := range [][]byte{nil, {1}, {0, 0, 1, 0}, {3, 0, 1, 0}, {255, 255, 2, 0, 'a'}, {8, 0, 1, 0, 1}, {5, 0, 1, 0, 1}} {
		if code, chain := readVerdict(b); code == -4 || chain != "" {
			t.Errorf("%v: %d %q", b, code, chain)
		}
	}
}
