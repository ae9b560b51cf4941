package ipvs

import (
	"errors"
	"net/netip"
	"slices"
)

// held is what the kernel has of one family, as far as it is known.
type held struct {
	servers map[server]virtual
	// real are weights of real servers.
	real map[server]map[netip.AddrPort]int
}

// hold reads it.
func hold(b balancer, f *family) (held, error) {
	servers, err := b.list(f)
	if err != nil {
		return held{}, err
	}
	h := held{servers, map[server]map[netip.AddrPort]int{}}
	for s := range servers {
		list, err := b.real(f, s)
		if err != nil {
			return held{}, err
		}
		h.real[s] = map[netip.AddrPort]int{}
		for to, has := range list {
			h.real[s][to] = has.weight
		}
	}
	return h, nil
}

// bring makes and changes what differs from what is wanted. Nothing is taken away but real
// servers, and these gracefully.
func (h *held) bring(b balancer, f *family, want desired) error {
	var errs []error
	for s, v := range want.servers {
		has, there := h.servers[s]
		if !there || !has.same(v) {
			if err := b.set(f, s, v, !there); err != nil {
				errs = append(errs, err)
				continue
			}
			h.servers[s] = v
		}
		if h.real[s] == nil {
			h.real[s] = map[netip.AddrPort]int{}
		}
		for _, to := range want.real[s] {
			weight, there := h.real[s][to]
			if there && weight == 1 {
				continue
			}
			if err := b.setReal(f, s, to, 1, !there); err != nil {
				errs = append(errs, err)
				continue
			}
			h.real[s][to] = 1
		}
		errs = append(errs, h.retire(b, f, s, want))
	}
	return errors.Join(errs...)
}

// retire takes real servers away that are not wanted. One with connections of TCP gets no new
// ones (weight 0) and stays until these have ended. For UDP and SCTP it goes at once, as with
// kube-proxy: their flows move on with the next packet.
func (h *held) retire(b balancer, f *family, s server, want desired) error {
	var old []netip.AddrPort
	for to := range h.real[s] {
		if !slices.Contains(want.real[s], to) {
			old = append(old, to)
		}
	}
	if len(old) == 0 {
		return nil
	}
	now := map[netip.AddrPort]backend{}
	if want.servers[s].graceful {
		var err error
		if now, err = b.real(f, s); err != nil {
			return err
		}
	}
	var errs []error
	for _, to := range old {
		switch has, there := now[to]; {
		case there && has.connections > 0 && h.real[s][to] == 0:
			// It waits for them.
		case there && has.connections > 0:
			if err := b.setReal(f, s, to, 0, false); err != nil {
				errs = append(errs, err)
				continue
			}
			h.real[s][to] = 0
		default:
			if err := b.removeReal(f, s, to); err != nil {
				errs = append(errs, err)
				continue
			}
			delete(h.real[s], to)
		}
	}
	return errors.Join(errs...)
}

// clear deletes virtual servers that are not wanted, of which a function says that they may go.
func (h *held) clear(b balancer, f *family, want desired, mayGo func(server) bool) error {
	var errs []error
	for s := range h.servers {
		if _, wanted := want.servers[s]; wanted || !mayGo(s) {
			continue
		}
		if err := b.remove(f, s); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(h.servers, s)
		delete(h.real, s)
	}
	return errors.Join(errs...)
}

// retiring reports whether real servers wait for their connections to end.
func (h *held) retiring() bool {
	for _, list := range h.real {
		for _, weight := range list {
			if weight == 0 {
				return true
			}
		}
	}
	return false
}
