package podnat

import (
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Masquerade gives what the pods of a node send beyond the cluster the machine's address, by
// which answers come back. What they send to pods keeps theirs.
type Masquerade struct {
	Bridge string
	Pods   netip.Prefix   // of this node
	Others []netip.Prefix // in which the pods of all nodes are; of another family than Pods: none
}

func (m Masquerade) shape() *shape {
	f := ipv6
	if m.Pods.Addr().Is4() {
		f = ipv4
	}
	inside := []netip.Prefix{m.Pods.Masked(), f.multicast}
	for _, o := range m.Others {
		if o = o.Masked(); f.has(o.Addr()) && !slices.Contains(inside, o) {
			inside = append(inside, o)
		}
	}
	comment := "from " + inside[0].String() + ", and not to"
	exprs := f.within(f.saddr, inside[0], false)
	for _, p := range inside {
		comment += " " + p.String()
		exprs = append(exprs, f.within(f.daddr, p, true)...)
	}
	return &shape{name: m.Bridge + "-masquerade", family: f, chains: []*chain{{
		name: "postrouting", kind: nft.ChainTypeNAT, hook: nft.ChainHookPostrouting, priority: *nft.ChainPriorityNATSource,
		rules: []rule{does(comment, exprs, []expr.Any{masquerade()})},
	}}}
}

// Sync writes the rule, unless it is there, and says whether it was not.
func (m Masquerade) Sync() (changed bool, err error) { return m.shape().sync() }

// Remove takes it away.
func (m Masquerade) Remove() error {
	_, err := m.shape().remove()
	return err
}
