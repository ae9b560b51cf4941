package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// commandTimeout bounds one call of the iptables tools; they wait up to five
// seconds for the lock that all of them share.
const commandTimeout = 20 * time.Second

// commands are the iptables tools; tests put a recorder in their place.
type commands interface {
	// save returns a table as iptables-save prints it.
	save(ctx context.Context, table string) (string, error)
	// restore loads rules in one go and leaves unnamed chains alone.
	restore(ctx context.Context, input []byte) error
	// has reports whether a built-in chain holds a rule.
	has(ctx context.Context, table, chain string, rule []string) bool
	// insert puts a rule at the head of a chain; remove takes it out.
	insert(ctx context.Context, table, chain string, rule []string) error
	remove(ctx context.Context, table, chain string, rule []string) error
	// randomFully reports whether MASQUERADE takes --random-fully.
	randomFully(ctx context.Context) bool
}

// tools runs the programs.
type tools struct{}

func (tools) run(ctx context.Context, stdin []byte, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (t tools) save(ctx context.Context, table string) (string, error) {
	return t.run(ctx, nil, "iptables-save", "-t", table)
}

func (t tools) restore(ctx context.Context, input []byte) error {
	_, err := t.run(ctx, input, "iptables-restore", "-w", "5", "--noflush", "--counters")
	return err
}

func (t tools) has(ctx context.Context, table, chain string, rule []string) bool {
	_, err := t.run(ctx, nil, "iptables", append([]string{"-w", "5", "-t", table, "-C", chain}, rule...)...)
	return err == nil
}

func (t tools) insert(ctx context.Context, table, chain string, rule []string) error {
	_, err := t.run(ctx, nil, "iptables", append([]string{"-w", "5", "-t", table, "-I", chain, "1"}, rule...)...)
	return err
}

func (t tools) remove(ctx context.Context, table, chain string, rule []string) error {
	_, err := t.run(ctx, nil, "iptables", append([]string{"-w", "5", "-t", table, "-D", chain}, rule...)...)
	return err
}

func (t tools) randomFully(ctx context.Context) bool {
	const trial = `*nat
:KUBE-PINTLE-PROBE - [0:0]
-A KUBE-PINTLE-PROBE -j MASQUERADE --random-fully
-X KUBE-PINTLE-PROBE
COMMIT
`
	_, err := t.run(ctx, []byte(trial), "iptables-restore", "-w", "5", "--noflush", "--test")
	return err == nil
}

// probe tells why the proxy could not run here. It changes nothing: the rules
// are only tested.
func probe(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("iptables needs root")
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed; install the package iptables", name)
		}
	}
	const trial = `*nat
:KUBE-PINTLE-PROBE - [0:0]
-A KUBE-PINTLE-PROBE -m comment --comment "probe" -m statistic --mode random --probability 0.5000000000 -j RETURN
-A KUBE-PINTLE-PROBE -m recent --name KUBE-PINTLE-PROBE --rcheck --seconds 1 --reap -j RETURN
-A KUBE-PINTLE-PROBE -m addrtype --dst-type LOCAL -j RETURN
-A KUBE-PINTLE-PROBE -m mark --mark 0x4000/0x4000 -j MASQUERADE
-A KUBE-PINTLE-PROBE -j MARK --xor-mark 0x4000
-X KUBE-PINTLE-PROBE
COMMIT
`
	if _, err := (tools{}).run(ctx, []byte(trial), "iptables-restore", "-w", "5", "--noflush", "--test"); err != nil {
		return fmt.Errorf("the kernel lacks something that the rules need: %w", err)
	}
	if _, err := (tools{}).save(ctx, "nat"); err != nil {
		return fmt.Errorf("table nat cannot be read: %w", err)
	}
	return nil
}
