package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"pintle.dev/pintle/plugins/runtimes/containerd/podnat"
)

// This file is about machines that are upgraded: earlier versions had CNI plugins that keep
// their rules in table nat, by the program iptables.

// nat is that table.
type nat struct{ iptables string }

func openNAT() (nat, bool) {
	iptables, err := exec.LookPath("iptables")
	return nat{iptables}, err == nil
}

func (n nat) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, n.iptables, append([]string{"-w", "5", "-t", "nat"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("iptables %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// rules lists the table as iptables -S prints it, a chain or a rule each.
func (n nat) rules(ctx context.Context) ([][]string, error) {
	out, err := n.run(ctx, "-S")
	if err != nil {
		return nil, err
	}
	var rules [][]string
	for line := range strings.Lines(out) {
		rules = append(rules, splitRule(strings.TrimSuffix(line, "\n")))
	}
	return rules, nil
}

// remove takes rules and then chains away, and goes on where it cannot.
func (n nat) remove(ctx context.Context, rules [][]string, chains []string) error {
	var errs []error
	for _, r := range rules {
		_, err := n.run(ctx, append([]string{"-D"}, r[1:]...)...)
		errs = append(errs, err)
	}
	for _, verb := range []string{"-F", "-X"} {
		for _, c := range chains {
			_, err := n.run(ctx, verb, c)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// portmapChains are what the CNI plugin portmap leaves in table nat when the
// last host port has gone.
var portmapChains = []string{"CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-SETMARK", "CNI-HOSTPORT-MASQ"}

// portmap finds portmap's chains and the rules that lead to them, when no host port
// uses them but those of the sandboxes whose chains are given.
func portmap(rules [][]string, but []string) (jumps [][]string, chains []string) {
	for _, r := range rules {
		switch {
		case len(r) < 2:
		case r[0] == "-N" && strings.HasPrefix(r[1], "CNI-DN-") && !slices.Contains(but, r[1]):
			return nil, nil // somebody's host ports are in use
		case r[0] == "-N" && slices.Contains(portmapChains, r[1]):
			chains = append(chains, r[1])
		case r[0] == "-A" && !slices.Contains(portmapChains, r[1]) && slices.Contains(portmapChains, option(r, "-j")):
			jumps = append(jumps, r)
		}
	}
	return jumps, chains
}

// mapped finds what the CNI plugin portmap has of sandboxes of the pod network: the rules that
// lead to their chains, the chains, and the host ports that these make.
func mapped(rules [][]string, pods netip.Prefix) (jumps [][]string, chains []string, sandboxes []podnat.Sandbox) {
	const prefix, suffix = `dnat name: "` + networkName + `" id: "`, `"`
	ids := map[string]string{} // by chain
	for _, r := range rules {
		if len(r) < 2 || r[0] != "-A" || r[1] != "CNI-HOSTPORT-DNAT" {
			continue
		}
		id, ours := strings.CutPrefix(option(r, "--comment"), prefix)
		chain := option(r, "-j")
		if !ours || !strings.HasPrefix(chain, "CNI-DN-") {
			continue
		}
		jumps = append(jumps, r)
		if ids[chain] == "" {
			chains = append(chains, chain)
		}
		ids[chain] = strings.TrimSuffix(id, suffix)
	}
	for _, chain := range chains {
		s := podnat.Sandbox{ID: ids[chain], Interface: "eth0"}
		for _, r := range rules {
			if len(r) < 2 || r[0] != "-A" || r[1] != chain || option(r, "-j") != "DNAT" {
				continue
			}
			to, err := netip.ParseAddrPort(option(r, "--to-destination"))
			number, err2 := strconv.ParseUint(option(r, "--dport"), 10, 16)
			if err != nil || err2 != nil || !pods.Contains(to.Addr()) {
				continue
			}
			p := podnat.Port{Protocol: option(r, "-p"), HostPort: uint16(number), ContainerPort: to.Port()}
			if address, _, _ := strings.Cut(option(r, "-d"), "/"); address != "" {
				if p.HostIP, err = netip.ParseAddr(address); err != nil {
					continue
				}
			}
			s.Addresses = []netip.Prefix{netip.PrefixFrom(to.Addr(), pods.Bits())}
			s.Ports = append(s.Ports, p)
		}
		if len(s.Ports) > 0 {
			sandboxes = append(sandboxes, s)
		}
	}
	return jumps, chains, sandboxes
}

// former tells the networks of earlier versions, whose plugins called iptables.
func former(network []byte) bool {
	return bytes.Contains(network, []byte(`"portmap"`)) || bytes.Contains(network, []byte(`"ipMasq": true`))
}

// bootID is another one after each boot of the machine, with which rules end.
const bootID = "/proc/sys/kernel/random/boot_id"

// keepFormer remembers that an earlier version's network was in force on this boot: its rules
// are in table nat, and its sandboxes may live.
func keepFormer(network, mark string) error {
	data, err := os.ReadFile(network)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !former(data) {
		return nil
	}
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return err
	}
	return writeFile(mark, boot)
}

// formerHere says whether that is so of this boot still. A mark of another boot is removed.
func formerHere(mark string) (bool, error) {
	of, err := os.ReadFile(mark)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	boot, err := os.ReadFile(bootID)
	if err != nil || bytes.Equal(of, boot) {
		return true, err
	}
	return false, removeIfThere(mark)
}

// errToolsGone: rules of iptables are left, and nothing by which they can be removed.
var errToolsGone = errors.New("the iptables tools, which wrote them, are gone; install them until the next start, or boot the machine anew")

// takeOver makes the host ports of sandboxes that live ours, and takes away what CNI plugins of
// an earlier version have in the table. A chain of another daemon's sandbox is bare for a
// moment while it is made: one that stays so for a while is nobody's.
func takeOver(ctx context.Context, pods netip.Prefix, ipam string, ports podnat.HostPorts, while time.Duration) error {
	n, ok := openNAT()
	if !ok {
		return errToolsGone
	}
	rules, err := n.rules(ctx)
	if err != nil {
		return err
	}
	live, err := holders(ipam)
	if err != nil {
		return err
	}
	toSandboxes, chainsOfPorts, sandboxes := mapped(rules, pods)
	for _, s := range sandboxes {
		if slices.Contains(live, s.ID) {
			err = errors.Join(err, ports.Add(s))
		}
	}
	if err != nil {
		return err
	}
	jumps, chains := masquerade(rules, pods)
	toPorts, shared := portmap(rules, chainsOfPorts)
	errs := []error{n.remove(ctx, slices.Concat(jumps, toPorts, toSandboxes), slices.Concat(chains, chainsOfPorts, shared))}
	if before := bare(rules); len(before) > 0 {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(while):
			rules, err = n.rules(ctx)
		}
		if err == nil {
			still := slices.DeleteFunc(bare(rules), func(c string) bool { return !slices.Contains(before, c) })
			err = n.remove(ctx, nil, still)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// holders lists the sandboxes that hold an address. The CNI plugin host-local keeps a
// file an address, whose first line is the sandbox's id.
func holders(ipam string) ([]string, error) {
	dir := filepath.Join(ipam, networkName)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if _, err := netip.ParseAddr(e.Name()); err != nil {
			continue // its lock, and what it gave last
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id, _, _ := strings.Cut(string(text), "\n")
		ids = append(ids, strings.TrimSpace(id))
	}
	return ids, nil
}

// masquerade finds the rules that lead to, and the chains of, sandboxes of the pod network.
// Rules of other networks, and of ours with addresses outside of pods, belong to others.
func masquerade(rules [][]string, pods netip.Prefix) (jumps [][]string, chains []string) {
	const prefix = `name: "` + networkName + `" id: "`
	for _, r := range rules {
		if len(r) < 2 || r[0] != "-A" || !strings.HasPrefix(option(r, "--comment"), prefix) {
			continue
		}
		chain, target := r[1], option(r, "-j")
		switch {
		case chain == "POSTROUTING" && strings.HasPrefix(target, "CNI-") && within(option(r, "-s"), pods):
			jumps = append(jumps, r)
			chain = target
		case strings.HasPrefix(chain, "CNI-") && within(option(r, "-d"), pods):
		default:
			continue
		}
		if !slices.Contains(chains, chain) {
			chains = append(chains, chain)
		}
	}
	return jumps, chains
}

// bareChain is a chain as the CNI plugin bridge names those of its sandboxes.
var bareChain = regexp.MustCompile(`^CNI-[0-9a-f]{24}$`)

// bare finds the chains of sandboxes without a rule in them or to them. Nothing says
// whose they are.
func bare(rules [][]string) []string {
	var chains []string
	used := map[string]bool{}
	for _, r := range rules {
		switch {
		case len(r) < 2:
		case r[0] == "-N" && bareChain.MatchString(r[1]):
			chains = append(chains, r[1])
		case r[0] == "-A":
			used[r[1]], used[option(r, "-j")] = true, true
		}
	}
	return slices.DeleteFunc(chains, func(c string) bool { return used[c] })
}

// within reports whether a network, or a single address, is part of a range.
func within(network string, of netip.Prefix) bool {
	p, err := netip.ParsePrefix(network)
	return err == nil && p.Bits() >= of.Bits() && of.Contains(p.Addr())
}

// option is the value that follows an option; empty without it.
func option(args []string, name string) string {
	if at := slices.Index(args, name); at >= 0 && at+1 < len(args) {
		return args[at+1]
	}
	return ""
}

// splitRule splits a rule as iptables -S prints it: comments are quoted, and quotes
// and backslashes in them come after a backslash.
func splitRule(s string) []string {
	var out []string
	var word strings.Builder
	quoted, escaped, has := false, false, false
	for _, r := range s {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quoted:
			escaped = true
		case r == '"':
			quoted, has = !quoted, true
		case r == ' ' && !quoted:
			if has {
				out = append(out, word.String())
				word.Reset()
				has = false
			}
		default:
			word.WriteRune(r)
			has = true
		}
	}
	if has {
		out = append(out, word.String())
	}
	return out
}
