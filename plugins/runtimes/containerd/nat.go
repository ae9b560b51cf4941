package containerd

import (
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
	"strings"
	"time"
)

// nat is table nat of the machine, in which CNI plugins keep their rules. Without
// iptables there is none, and nothing of theirs in it.
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
// uses them.
func portmap(rules [][]string) (jumps [][]string, chains []string) {
	for _, r := range rules {
		switch {
		case len(r) < 2:
		case r[0] == "-N" && strings.HasPrefix(r[1], "CNI-DN-"):
			return nil, nil // somebody's host ports are in use
		case r[0] == "-N" && slices.Contains(portmapChains, r[1]):
			chains = append(chains, r[1])
		case r[0] == "-A" && !slices.Contains(portmapChains, r[1]) && slices.Contains(portmapChains, option(r, "-j")):
			jumps = append(jumps, r)
		}
	}
	return jumps, chains
}

// removeMasquerade takes away the rules by which the CNI plugin bridge masquerades
// sandboxes that hold no address in ipam. It leaves them behind when it is killed
// between the removal of a sandbox's interface and that of its rules, since it finds the
// rules by the interface's addresses; whoever ends the kernel while pods are deleted
// makes containerd kill it. Rules of other networks, and of ours with addresses outside
// of pods, belong to others.
func removeMasquerade(ctx context.Context, pods netip.Prefix, ipam string) error {
	n, ok := openNAT()
	if !ok {
		return nil
	}
	// A sandbox has its address before its rules: the rules are read first.
	rules, err := n.rules(ctx)
	if err != nil {
		return fmt.Errorf("remove masquerading of former sandboxes: %w", err)
	}
	live, err := holders(ipam)
	if err != nil {
		return fmt.Errorf("remove masquerading of former sandboxes: %w", err)
	}
	jumps, chains := masquerade(rules, pods, live)
	if err := n.remove(ctx, jumps, chains); err != nil {
		return fmt.Errorf("remove masquerading of former sandboxes: %w", err)
	}
	return nil
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

// masquerade finds the rules that lead to, and the chains of, sandboxes of the pod
// network that are not among those that live.
func masquerade(rules [][]string, pods netip.Prefix, live []string) (jumps [][]string, chains []string) {
	const prefix, suffix = `name: "` + networkName + `" id: "`, `"`
	for _, r := range rules {
		if len(r) < 2 || r[0] != "-A" {
			continue
		}
		id, ours := strings.CutPrefix(option(r, "--comment"), prefix)
		if id = strings.TrimSuffix(id, suffix); !ours || slices.Contains(live, id) {
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

// clearNAT takes away, when no sandbox is left, what CNI plugins left in the table: the
// chains of host ports, masquerading, and the chains that a plugin which was killed made
// or emptied last. A chain of another daemon's sandbox is bare for a moment while it is
// made: one that stays so for a while is nobody's.
func clearNAT(ctx context.Context, pods netip.Prefix, while time.Duration) error {
	n, ok := openNAT()
	if !ok {
		return nil
	}
	rules, err := n.rules(ctx)
	if err != nil {
		return fmt.Errorf("remove rules of pods: %w", err)
	}
	jumps, chains := masquerade(rules, pods, nil)
	toPorts, ports := portmap(rules)
	errs := []error{n.remove(ctx, append(jumps, toPorts...), append(chains, ports...))}
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
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove rules of pods: %w", err)
	}
	return nil
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
