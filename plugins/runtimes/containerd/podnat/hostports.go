package podnat

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	nft "github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// HostPorts are those of the sandboxes on one bridge. Methods may be called by many
// processes at once.
type HostPorts struct {
	// Bridge is the name of the bridge.
	Bridge string
	// Directory has the records.
	Directory string
	// Proc is the kernel's tree of switches; empty: /proc/sys.
	Proc string
}

// mark is on packets that have to be masqueraded, from here to postrouting: the bit of the
// CNI plugin portmap, beside those of kube-proxy.
const mark = 1 << 13

// The maps of a table. A port of one address comes before the same port of all.
const addressed, everywhere = "addressed", "everywhere"

// Add leads ports to a sandbox, in place of what it had before. When it returns packets
// arrive; UDP flows that went elsewhere do, too.
func (h HostPorts) Add(s Sandbox) error {
	for i := range s.Ports {
		s.Ports[i].HostIP = s.Ports[i].HostIP.Unmap()
		s.Ports[i].Protocol = strings.ToLower(s.Ports[i].Protocol)
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := h.locked(func(r records) error {
		list, _, err := r.all()
		if err != nil {
			return err
		}
		for _, other := range list {
			s.Turn = max(s.Turn, other.Turn+1)
		}
		if err := r.write(s); err != nil {
			return err
		}
		_, _, err = h.sync()
		return err
	}); err != nil {
		return fmt.Errorf("host ports of sandbox %s: %w", s.ID, err)
	}
	return forgetFlows(s, false)
}

// locked does something while no other process reads or writes records.
func (h HostPorts) locked(f func(r records) error) error {
	unlock, err := records(h.Directory).lock()
	if err != nil {
		return err
	}
	defer unlock()
	return f(records(h.Directory))
}

// Remove takes the ports of a sandbox away. One without any is no error. A process that is
// killed in it leaves the record, so that the next try does all of it.
func (h HostPorts) Remove(id, iface string) error {
	if !names.MatchString(id) || !names.MatchString(iface) {
		return nil // there can be no record
	}
	file := records(h.Directory).file(id, iface)
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err := h.end(func(s Sandbox) bool { return s.ID == id && s.Interface == iface })
	if err != nil {
		return fmt.Errorf("remove host ports of sandbox %s: %w", id, err)
	}
	// A damaged record has no ports.
	return h.locked(func(r records) error {
		if s, err := r.read(file); err == nil && !s.Ended {
			return nil // it was added again
		}
		return gone(os.Remove(file))
	})
}

// end takes away the ports of sandboxes: first the rules, then flows that go by them still,
// and the records last.
func (h HostPorts) end(which func(s Sandbox) bool) error {
	var ended []Sandbox
	if err := h.locked(func(r records) error {
		list, _, err := r.all()
		if err != nil {
			return err
		}
		for _, s := range list {
			if !which(s) {
				continue
			}
			s.Ended = true
			if err := r.write(s); err != nil {
				return err
			}
			ended = append(ended, s)
		}
		_, _, err = h.sync()
		return err
	}); err != nil {
		return err
	}
	for _, s := range ended {
		if err := forgetFlows(s, true); err != nil {
			return err
		}
	}
	return h.locked(func(r records) error {
		for _, s := range ended {
			if now, err := r.read(r.file(s.ID, s.Interface)); err == nil && now.Ended {
				if err := gone(os.Remove(r.file(s.ID, s.Interface))); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// gone is no error where a file is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Check returns nil where the ports of a sandbox are in force, else what differs.
func (h HostPorts) Check(id, iface string) error {
	unlock, err := records(h.Directory).lock()
	if err != nil {
		return err
	}
	defer unlock()
	r := records(h.Directory)
	if _, err := r.read(r.file(id, iface)); err != nil {
		return fmt.Errorf("host ports of sandbox %s are not known: %w", id, err)
	}
	list, _, err := r.all()
	if err != nil {
		return err
	}
	for _, f := range families {
		want := h.shape(f, list)
		if want == nil {
			continue
		}
		if err := want.verify(); err != nil {
			return fmt.Errorf("host ports of sandbox %s: %w", id, err)
		}
	}
	return nil
}

// Keep takes away the ports of all sandboxes but those that live, and puts the tables right.
func (h HostPorts) Keep(lives func(id, iface string) bool) error {
	if err := h.end(func(s Sandbox) bool { return !lives(s.ID, s.Interface) }); err != nil {
		return fmt.Errorf("remove host ports of former sandboxes: %w", err)
	}
	return nil
}

// Sync makes the tables what the records say, and says whether they were anything else.
// Damaged names records that cannot be read.
func (h HostPorts) Sync() (changed bool, damaged []error, err error) {
	if _, err := os.Stat(h.Directory); errors.Is(err, fs.ErrNotExist) {
		changed, err := h.removeTables()
		return changed, nil, err // a table may be left of a folder that is gone
	}
	unlock, err := records(h.Directory).lock()
	if err != nil {
		return false, nil, err
	}
	defer unlock()
	return h.sync()
}

// Sandboxes are the ids of those that have records.
func (h HostPorts) Sandboxes() ([]string, error) {
	list, _, err := records(h.Directory).all()
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, nil
}

// Clear removes the tables and the records.
func (h HostPorts) Clear() error {
	_, err := h.removeTables()
	return errors.Join(err, os.RemoveAll(h.Directory))
}

func (h HostPorts) sync() (changed bool, damaged []error, err error) {
	list, damaged, err := records(h.Directory).all()
	if err != nil {
		return false, damaged, err
	}
	for _, f := range families {
		var now bool
		want := h.shape(f, list)
		if want == nil {
			now, err = h.removeTable(f)
		} else if now, err = want.sync(); err == nil && f == ipv4 {
			// The rules that guard 127.0.0.1 are there by now.
			err = h.openLocalhost("1")
		}
		if err != nil {
			return changed, damaged, err
		}
		changed = changed || now
	}
	return changed, damaged, nil
}

func (h HostPorts) removeTables() (changed bool, err error) {
	var errs []error
	for _, f := range families {
		now, err := h.removeTable(f)
		changed, errs = changed || now, append(errs, err)
	}
	return changed, errors.Join(errs...)
}

// removeTable closes 127.0.0.1 before the rules go that guard it.
func (h HostPorts) removeTable(f *family) (bool, error) {
	if f == ipv4 {
		if err := h.openLocalhost("0"); err != nil {
			return false, err
		}
	}
	return (&shape{name: h.Bridge + "-hostports", family: f}).remove()
}

// openLocalhost lets packets between 127.0.0.1 and pods pass the bridge, or not. Without a
// bridge there is no pod.
func (h HostPorts) openLocalhost(value string) error {
	proc := h.Proc
	if proc == "" {
		proc = "/proc/sys"
	}
	file := filepath.Join(proc, "net/ipv4/conf", h.Bridge, "route_localnet")
	now, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || err == nil && strings.TrimSpace(string(now)) == value {
		return nil
	}
	if err == nil {
		err = os.WriteFile(file, []byte(value), 0)
	}
	if err != nil {
		return fmt.Errorf("set net.ipv4.conf.%s.route_localnet to %s: %w", h.Bridge, value, err)
	}
	return nil
}

// shape is the table of a family for these sandboxes; nil: there is none.
func (h HostPorts) shape(f *family, list []Sandbox) *shape {
	target := []nft.SetDatatype{f.address, nft.TypeInetService}
	byAddress := &addressMap{
		name: addressed, comment: "host ports of one address", data: target, elements: map[string]string{},
		key: []nft.SetDatatype{f.address, nft.TypeInetProto, nft.TypeInetService},
	}
	byPort := &addressMap{
		name: everywhere, comment: "host ports of all addresses", data: target, elements: map[string]string{},
		key: []nft.SetDatatype{nft.TypeInetProto, nft.TypeInetService},
	}
	var near []netip.Prefix // who must not see the pod's own answer
	if f == ipv4 {
		near = append(near, f.loopback)
	}
	for _, s := range list {
		at := slices.IndexFunc(s.Addresses, func(a netip.Prefix) bool { return f.has(a.Addr()) })
		if at < 0 || s.Ended {
			continue
		}
		address := s.Addresses[at]
		for _, p := range s.Ports {
			if p.HostIP.IsValid() && !f.has(p.HostIP) {
				continue
			}
			value := string(appendPort(address.Addr().AsSlice(), p.ContainerPort))
			key := appendPort(appendProtocol(nil, protocols[p.Protocol]), p.HostPort)
			if p.HostIP.IsValid() && !p.HostIP.IsUnspecified() {
				byAddress.elements[string(append(p.HostIP.AsSlice(), key...))] = value
			} else {
				byPort.elements[string(key)] = value
			}
		}
		if network := address.Masked(); !slices.Contains(near, network) {
			near = append(near, network)
		}
	}
	if len(byAddress.elements)+len(byPort.elements) == 0 {
		return nil
	}
	slices.SortFunc(near, func(a, b netip.Prefix) int { return strings.Compare(a.String(), b.String()) })
	return &shape{name: h.Bridge + "-hostports", family: f, maps: []*addressMap{byAddress, byPort}, chains: f.chains(near)}
}

// chains are the rules, which depend on the networks alone that are near.
func (f *family) chains(near []netip.Prefix) []*chain {
	// look finds where a packet goes and puts that into registers from 8 on.
	look := func(name string) []expr.Any {
		load, from := loadPort(0), 0
		if name == addressed {
			load = append(one(f.loadAddress(f.daddr, 0)), loadPort(f.words())...)
		}
		return append(load, &expr.Lookup{SourceRegister: register(from), DestRegister: register(8), IsDestRegSet: true, SetName: name})
	}
	ports := &chain{name: "hostports"}
	for _, name := range []string{addressed, everywhere} {
		for _, n := range near {
			// The answer would go straight to the asker, with the pod's address.
			ports.rules = append(ports.rules, does(name+": from "+n.String()+", masqueraded later",
				f.within(f.saddr, n, false), look(name), changeMark(mark, mark)))
		}
		ports.rules = append(ports.rules, does(name+": to the pod", look(name), one(
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: f.protocol, RegAddrMin: register(8), RegProtoMin: register(8 + f.words())})))
	}
	toPorts := does("to this machine", toMachine(), jump(ports.name))
	out := []*chain{
		ports,
		// Services come first.
		{name: "prerouting", kind: nft.ChainTypeNAT, hook: nft.ChainHookPrerouting, priority: *nft.ChainPriorityNATDest + 10, rules: []rule{toPorts}},
		{name: "output", kind: nft.ChainTypeNAT, hook: nft.ChainHookOutput, priority: *nft.ChainPriorityNATDest + 10, rules: []rule{toPorts}},
		{name: "postrouting", kind: nft.ChainTypeNAT, hook: nft.ChainHookPostrouting, priority: *nft.ChainPriorityNATSource, rules: []rule{
			does("masqueraded, without the mark", marked(mark), changeMark(mark, 0), one(masquerade())),
		}},
	}
	if f == ipv4 {
		// The bridge routes 127.0.0.0/8, which would open to pods what listens there.
		out = append(out, &chain{name: "guard", kind: nft.ChainTypeFilter, hook: nft.ChainHookPrerouting, priority: *nft.ChainPriorityNATDest - 20, rules: []rule{
			does("from another interface to "+f.loopback.String(),
				one(&expr.Meta{Key: expr.MetaKeyIIFTYPE, Register: register(0)}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register(0), Data: shortNumber(unix.ARPHRD_LOOPBACK)}),
				f.within(f.daddr, f.loopback, false), one(&expr.Verdict{Kind: expr.VerdictDrop})),
		}})
	}
	return out
}
