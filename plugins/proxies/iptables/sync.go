package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// jump is a rule of ours in a built-in chain.
type jump struct {
	table, chain, comment, target string
}

func (j jump) rule() []string {
	return []string{"-m", "comment", "--comment", j.comment, "-j", j.target}
}

// jumps are ensured before each full sync (requirements PIT-6, PIT-8), each at
// the head of its chain; a later one comes before an earlier one of the same
// chain. Those of filter FORWARD and INPUT are 1.36's: without them a pod would
// wait for a service without endpoints instead of being refused.
var jumps = []jump{
	{"filter", "OUTPUT", "kubernetes service portals", chainServices},
	{"filter", "FORWARD", "kubernetes forwarding rules", chainForward},
	{"filter", "FORWARD", "kubernetes service portals", chainServices},
	{"filter", "FORWARD", "kubernetes externally-visible service portals", chainExternal},
	{"filter", "INPUT", "kubernetes externally-visible service portals", chainExternal},
	{"filter", "INPUT", "kubernetes localnet guard", chainFirewall},
	{"filter", "INPUT", "kubernetes health check service ports", chainNodePorts},
	{"filter", "INPUT", "kubernetes load balancer firewall", chainNotAllowed},
	{"filter", "OUTPUT", "kubernetes load balancer firewall", chainNotAllowed},
	{"filter", "FORWARD", "kubernetes load balancer firewall", chainNotAllowed},
	{"nat", "OUTPUT", "kubernetes service portals", chainServices},
	{"nat", "PREROUTING", "kubernetes service portals", chainServices},
	{"nat", "POSTROUTING", "kubernetes postrouting rules", chainPostrouting},
}

// oldSNAT is what releases before the mark bit left behind (requirement PIT-39).
var oldSNAT = []string{"-m", "comment", "--comment", "kubernetes service traffic requiring SNAT", "-m", "mark", "--mark", "0x4d415351", "-j", "MASQUERADE"}

// table is the text of our chains of one table: chain name → rules.
type table map[string]string

// desired assembles every chain from the rendered ports.
func desired(ports map[serviceport.ID]*serviceport.Port, rendered map[serviceport.ID]rules, b base) (nat, filter table) {
	fixedNAT, fixedFilter := b.fixed()
	nat, filter = table{}, table{}
	for name, lines := range fixedNAT {
		nat[name] = text(name, lines)
	}
	for name, lines := range fixedFilter {
		filter[name] = text(name, lines)
	}
	var services, nodePorts, rejects, external, firewall strings.Builder
	var health []string
	for _, p := range sortedPorts(ports) {
		r := rendered[p.ID]
		write(&services, chainServices, r.services)
		write(&nodePorts, chainNodePorts, r.nodePorts)
		write(&rejects, chainServices, r.rejects)
		write(&external, chainExternal, r.external)
		write(&firewall, chainNotAllowed, r.firewall)
		health = append(health, r.health...)
		for name, lines := range r.chains {
			nat[name] = text(name, lines)
		}
	}
	write(&services, chainServices, []string{lastRule()})
	nat[chainServices], nat[chainNodePorts] = services.String(), nodePorts.String()
	filter[chainServices], filter[chainExternal], filter[chainNotAllowed] = rejects.String(), external.String(), firewall.String()
	filter[chainNodePorts] = text(chainNodePorts, slices.Compact(health)) // the ports of a service share one
	return nat, filter
}

func text(chain string, lines []string) string {
	var b strings.Builder
	write(&b, chain, lines)
	return b.String()
}

func write(b *strings.Builder, chain string, lines []string) {
	for _, l := range lines {
		b.WriteString("-A ")
		b.WriteString(chain)
		b.WriteByte(' ')
		b.WriteString(l)
		b.WriteByte('\n')
	}
}

// restoreInput writes what turns the loaded tables into the wanted ones, or
// nil when nothing differs. Chains are written in a fixed order: the filter
// table first, then nat (requirement PIT-37).
func restoreInput(loadedNAT, loadedFilter, nat, filter table) []byte {
	var b bytes.Buffer
	for _, t := range []struct {
		name         string
		loaded, want table
	}{{"filter", loadedFilter, filter}, {"nat", loadedNAT, nat}} {
		var changed, stale []string
		for _, name := range slices.Sorted(maps.Keys(t.want)) {
			if old, ok := t.loaded[name]; !ok || old != t.want[name] {
				changed = append(changed, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(t.loaded)) {
			if _, ok := t.want[name]; !ok {
				stale = append(stale, name)
			}
		}
		if len(changed)+len(stale) == 0 {
			continue
		}
		fmt.Fprintf(&b, "*%s\n", t.name)
		for _, name := range slices.Concat(changed, stale) {
			fmt.Fprintf(&b, ":%s - [0:0]\n", name)
		}
		for _, name := range changed {
			b.WriteString(t.want[name])
		}
		for _, name := range stale { // PIT-35
			fmt.Fprintf(&b, "-X %s\n", name)
		}
		b.WriteString("COMMIT\n")
	}
	return b.Bytes()
}

// ours reports whether a chain belongs to a service port.
func ours(chain string) bool {
	for _, prefix := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-" /* of earlier releases */} {
		if strings.HasPrefix(chain, prefix) {
			return true
		}
	}
	return false
}

// chainsIn lists the user's chains of a table as iptables-save prints it.
func chainsIn(saved string) []string {
	var out []string
	for line := range strings.Lines(saved) {
		if name, ok := strings.CutPrefix(line, ":"); ok {
			if name, _, ok = strings.Cut(name, " "); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

// found returns the chains of ours that the machine has, with a text that
// equals no rendered one, so that each is loaded anew or deleted.
func found(ctx context.Context, c commands) (nat, filter table, err error) {
	const unknown = "?"
	saved, err := c.save(ctx, "nat")
	if err != nil {
		return nil, nil, err
	}
	nat, filter = table{}, table{}
	for _, name := range chainsIn(saved) {
		if ours(name) {
			nat[name] = unknown
		}
	}
	return nat, filter, nil
}

// ensureJumps makes the fixed chains, if they are not there, and the jumps to
// them.
func ensureJumps(ctx context.Context, c commands) error {
	have := map[string]map[string]bool{"nat": {}, "filter": {}}
	saved := map[string]string{}
	for name := range have {
		out, err := c.save(ctx, name)
		if err != nil {
			return err
		}
		saved[name] = out
		for _, chain := range chainsIn(out) {
			have[name][chain] = true
		}
	}
	var input bytes.Buffer
	for _, name := range []string{"filter", "nat"} {
		var missing []string
		for _, j := range jumps {
			if j.table == name && !have[name][j.target] && !slices.Contains(missing, j.target) {
				missing = append(missing, j.target)
			}
		}
		if len(missing) == 0 {
			continue
		}
		fmt.Fprintf(&input, "*%s\n", name)
		for _, chain := range missing {
			fmt.Fprintf(&input, ":%s - [0:0]\n", chain)
		}
		input.WriteString("COMMIT\n")
	}
	if input.Len() > 0 {
		if err := c.restore(ctx, input.Bytes()); err != nil {
			return err
		}
	}
	for _, j := range jumps {
		if !c.has(ctx, j.table, j.chain, j.rule()) {
			if err := c.insert(ctx, j.table, j.chain, j.rule()); err != nil {
				return err
			}
		}
	}
	if strings.Contains(saved["nat"], "0x4d415351") && c.has(ctx, "nat", "POSTROUTING", oldSNAT) {
		return c.remove(ctx, "nat", "POSTROUTING", oldSNAT)
	}
	return nil
}

// cleanup removes the jumps and every chain of ours.
func cleanup(ctx context.Context, c commands) error {
	var errs []error
	for _, j := range jumps {
		for c.has(ctx, j.table, j.chain, j.rule()) {
			if err := c.remove(ctx, j.table, j.chain, j.rule()); err != nil {
				errs = append(errs, err)
				break
			}
		}
	}
	var input bytes.Buffer
	fixedNAT, fixedFilter := base{}.fixed()
	for _, t := range []struct {
		name  string
		fixed []string
	}{
		{"filter", append(slices.Collect(maps.Keys(fixedFilter)), chainServices, chainExternal, chainNotAllowed, chainNodePorts)},
		{"nat", append(slices.Collect(maps.Keys(fixedNAT)), chainServices, chainNodePorts)},
	} {
		saved, err := c.save(ctx, t.name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var gone []string
		for _, chain := range chainsIn(saved) {
			if slices.Contains(t.fixed, chain) || t.name == "nat" && ours(chain) {
				gone = append(gone, chain)
			}
		}
		if len(gone) == 0 {
			continue
		}
		fmt.Fprintf(&input, "*%s\n", t.name)
		for _, chain := range gone {
			fmt.Fprintf(&input, ":%s - [0:0]\n", chain)
		}
		for _, chain := range gone {
			fmt.Fprintf(&input, "-X %s\n", chain)
		}
		input.WriteString("COMMIT\n")
	}
	if input.Len() > 0 {
		errs = append(errs, c.restore(ctx, input.Bytes()))
	}
	return errors.Join(errs...)
}
