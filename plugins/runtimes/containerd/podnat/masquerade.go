package podnat

import (
	"errors"
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Masquerade gives what the pods of a node send beyond the cluster the machine's address, by
// which answers come back. What they send to pods keeps theirs.
type Masquerade struct {
	Bridge string
	Pods   []netip.Prefix // of this node, one of each family at most
	Others []netip.Prefix // in which the pods of all nodes are; those of a family that Pods lacks do not count
}

// shape is the table of a family; nil: pods have no address of it.
func (m Masquerade) shape(f *family) *shape {
	i := slices.IndexFunc(m.Pods, func(p netip.Prefix) bool { return f.has(p.Addr()) })
	if i < 0 {
		return nil
	}
	inside := []netip.Prefix{m.Pods[i].Masked(), f.multicast}
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
	s := m.empty(f)
	s.chains = []*chain{{
		name: "postrouting", kind: nft.ChainTypeNAT, hook: nft.ChainHookPostrouting, priority: *nft.ChainPriorityNATSource,
		rules: []rule{does(comment, exprs, []expr.Any{masquerade()})},
	}}
	return s
}

// Sync writes the rule of each family, unless it is there, and says whether one was not. A family that pods do not have
// any more has none.
func (m Masquerade) Sync() (changed bool, err error) {
	for _, f := range families {
		var wrote bool
		if s := m.shape(f); s != nil {
			wrote, err = s.sync()
		} else {
			wrote, err = m.empty(f).remove()
		}
		if changed = changed || wrote; err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// Remove takes the rules away.
func (m Masquerade) Remove() error {
	var errs []error
	for _, f := range families {
		_, err := m.empty(f).remove()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// empty names the table of a family.
func (m Masquerade) empty(f *family) *shape { return &shape{name: m.Bridge + "-masquerade", family: f} }
