package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/plugins/runtimes/containerd/podnat"
)

// translation keeps the rules of pods' addresses: the way out of the cluster, and host ports,
// which the CNI plugin hostports records and writes. It is for one goroutine at a time.
type translation struct {
	log        *slog.Logger
	layout     layout
	masquerade podnat.Masquerade
	ports      podnat.HostPorts

	checked bool // generation and records are those of the last look
	// generation is that of the machine's rules, records when the folder of records changed.
	generation uint32
	records    time.Time
	said       string // the fault that was logged last
}

func newTranslation(bridge string, pods, others []netip.Prefix, l layout, log *slog.Logger) translation {
	return translation{
		log: log, layout: l,
		masquerade: podnat.Masquerade{Bridge: bridge, Pods: pods, Others: others},
		ports:      podnat.HostPorts{Bridge: bridge, Directory: l.ports},
	}
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// start makes the rules what they have to be: those of an earlier version become ours, and
// host ports of sandboxes go that a killed daemon did not remove.
func (t *translation) start(ctx context.Context) {
	if err := t.takeOver(ctx); err != nil {
		t.log.Warn("rules of an earlier version are left until the next start", "error", err)
	}
	if err := t.removeDead(); err != nil {
		t.log.Warn("host ports of former sandboxes are left until the next start", "error", err)
	}
	t.checked = false
	t.mend()
}

// removeDead takes away the ports of sandboxes that hold no address. A sandbox gets its
// address before its ports, and gives it back after them: the records are read first.
func (t *translation) removeDead() error {
	ids, err := t.ports.Sandboxes()
	if err != nil {
		return err
	}
	live, err := holders(t.layout.ipam)
	if err != nil {
		return err
	}
	return t.ports.Keep(func(id, _ string) bool {
		return slices.Contains(live, id) || !slices.Contains(ids, id)
	})
}

// mend puts right what others changed. It looks where anybody changed rules of the machine, or
// a record was changed, since the last look.
func (t *translation) mend() {
	generation, err := podnat.Generation()
	var records time.Time
	if info, gone := os.Stat(t.layout.ports); gone == nil {
		records = info.ModTime()
	}
	if err == nil && t.checked && generation == t.generation && records.Equal(t.records) {
		return
	}
	var wrote, written bool
	var damaged []error
	if err == nil {
		if wrote, err = t.masquerade.Sync(); err == nil {
			written, damaged, err = t.ports.Sync()
		}
	}
	if err := errors.Join(append(damaged, err)...); err == nil {
		t.said = ""
	} else if t.said != err.Error() {
		t.said = err.Error()
		t.log.Error("pods may have no way out of this machine, or no host ports", "error", err)
	}
	if t.checked && (wrote || written) {
		t.log.Warn("somebody changed rules of pods' addresses, which are put right", "wayOut", wrote, "hostPorts", written)
	}
	// After a change the generation is another: the next look finds all as it is.
	t.checked = err == nil
	t.generation, t.records = generation, records
}

// clear removes every rule, when no sandbox is left.
func (t *translation) clear(ctx context.Context) error {
	if t.layout.ports == "" {
		return nil
	}
	err := t.takeOver(ctx)
	if errors.Is(err, errToolsGone) {
		t.log.Warn("rules of an earlier version are left", "error", err)
		err = nil
	}
	return errors.Join(err, t.ports.Clear(), t.masquerade.Remove())
}

// takeOver has done its work once the file former is gone, which a start keeps of an earlier
// version's network.
func (t *translation) takeOver(ctx context.Context) error {
	if here, err := formerHere(t.layout.former); err != nil || !here {
		return err
	}
	if err := takeOver(ctx, t.formerPods(), t.layout.ipam, t.ports, time.Second); err != nil {
		return fmt.Errorf("take over host ports and masquerading from iptables: %w", err)
	}
	return removeIfThere(t.layout.former)
}

// formerPods is the range that an earlier version masqueraded, which knew IPv4 alone; the zero prefix contains no address.
func (t *translation) formerPods() netip.Prefix {
	if i := slices.IndexFunc(t.masquerade.Pods, func(p netip.Prefix) bool { return p.Addr().Is4() }); i >= 0 {
		return t.masquerade.Pods[i]
	}
	return netip.Prefix{}
}
