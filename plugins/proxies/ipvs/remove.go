package ipvs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Remove deletes what an earlier run left: virtual servers, the device and the tables. Where there
// is neither device nor table nothing is asked of IPVS.
func Remove(context.Context) error {
	h := host{tables: &kernelTables{}, device: dummy{}}
	left, err := h.left()
	if err == nil && left {
		if h.balancer, err = openIPVS(); errors.Is(err, errNoIPVS) {
			h.balancer, err = nil, nil // without it there are no virtual servers
		}
		if err == nil {
			err = h.removeAll()
		}
		if h.balancer != nil {
			h.balancer.close()
		}
	}
	return errors.Join(err, h.tables.close())
}

// left reports whether an earlier run left something.
func (h host) left() (bool, error) {
	on, _, err := h.device.addresses()
	if err != nil || len(on) > 0 {
		return len(on) > 0, err
	}
	for _, f := range []*family{ipv4, ipv6} {
		has, _, err := h.tables.read(f)
		if unsupported(err) {
			continue
		}
		if err != nil || len(has.elements) > 0 {
			return len(has.elements) > 0, err
		}
	}
	return false, nil
}

// removeAll deletes everything that is the proxy's. The tables say which virtual servers are; where
// they are gone, those at addresses of the device are.
func (h host) removeAll() error {
	on, _, err := h.device.addresses()
	errs := []error{err}
	for _, f := range []*family{ipv4, ipv6} {
		has, _, err := h.tables.read(f)
		if !unsupported(err) {
			errs = append(errs, err)
		}
		if h.balancer != nil {
			errs = append(errs, h.removeServers(f, has, func(s server) bool { return on[s.address] }))
		}
	}
	// The addresses go before the tables, which keep other ports of this node from being
	// reached by them.
	_, err = h.device.remove()
	errs = append(errs, err)
	for _, f := range []*family{ipv4, ipv6} {
		_, err := h.tables.remove(f)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (h host) removeServers(f *family, has contents, ours func(server) bool) error {
	list, err := h.balancer.list(f)
	errs := []error{err}
	marks := map[string]bool{}
	for i, value := range has.elements {
		if i.set() == inside {
			marks[value] = true
		}
	}
	for s := range list {
		_, front := has.elements[newItem(fronts, s.front.key())]
		if s.mark != 0 && !marks[string(markValue(s.mark))] || s.mark == 0 && !front && !ours(s) {
			continue
		}
		errs = append(errs, h.balancer.remove(f, s))
	}
	return errors.Join(errs...)
}

// timeoutsFile keeps the timeouts of IPVS from before the first change, for the cleanup.
const timeoutsFile = "ipvs-timeouts.json"

// rememberTimeouts writes them down, unless an earlier start did.
func rememberTimeouts(folder string, b balancer) error {
	file := filepath.Join(folder, timeoutsFile)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	t, err := b.timeouts()
	if err != nil {
		return err
	}
	data, err := json.Marshal([]time.Duration{t.tcp, t.tcpFin, t.udp})
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = os.WriteFile(file+".tmp", data, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".tmp", file)
	}
	if err != nil {
		return fmt.Errorf("remember the timeouts of IPVS: %w", err)
	}
	return nil
}

// restoreTimeouts puts back what was written down, and forgets it.
func restoreTimeouts(folder string, b balancer) error {
	file := filepath.Join(folder, timeoutsFile)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var list []time.Duration
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err == nil && len(list) == 3 {
		err = b.setTimeouts(timeouts{list[0], list[1], list[2]})
	}
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		return fmt.Errorf("put the timeouts of IPVS back: %w", err)
	}
	return nil
}
