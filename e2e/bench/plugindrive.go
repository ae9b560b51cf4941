package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"pintle.dev/pintle/e2e/cluster"
)

// pluginDrive is work for the plugin host without a kernel around it. Like a
// drive it runs in a process of its own, plugindrive_test.go, a fresh one each.
type pluginDrive struct {
	// Phase is ask, cross, percall, weigh or many.
	Phase     string
	Transport string
	// Bundle is a sealed bundle, Module that of percall, and the bundle's of cross.
	Bundle, Module string
	// Predicate is which of testdata/fits is asked: 0 Fits, 1 Room.
	Predicate int
	// Cache is where compiled modules are kept between drives.
	Cache   string
	Nodes   int
	Bundles int // of many
	Out     string
}

// pluginDriven is the outcome. Times are medians in nanoseconds, sizes bytes.
type pluginDriven struct {
	Plugins int `json:",omitempty"`

	// Of cross: a call of pintle_abi_version, which does nothing, with nothing of
	// ours around it.
	Bare float64 `json:",omitempty"`
	// Of ask. Crossing, of cross as well, is a question about one node, Pass one about all, Changed
	// the delta of a bound pod and a question about its node, Asked that question
	// alone.
	Crossing, Pass, Changed, Asked float64 `json:",omitempty"`
	// Calls is a question about each node in a call of its own: of ask and percall.
	Calls float64 `json:",omitempty"`
	// Refused counts the nodes that do not fit, to compare both.
	Refused int `json:",omitempty"`

	// Of weigh and many: what this process holds more than before, of which so
	// much is anonymous, and what the plugins' processes hold.
	Resident, Anonymous, Linear, Processes float64 `json:",omitempty"`
	// Ready is how long the host took to be ready.
	Ready float64 `json:",omitempty"`
}

// by runs the work in the compiled driver.
func (d pluginDrive) by(ctx context.Context, program string) (out pluginDriven, err error) {
	d.Out = program + "-plugin.json"
	defer os.Remove(d.Out)
	err = drivenBy(ctx, program, "", "TestPluginDrive", "PINTLE_PLUGIN_DRIVE", d, d.Out, &out)
	if err != nil {
		return out, fmt.Errorf("drive %s %s: %w", d.Phase, d.Transport, err)
	}
	return out, nil
}

// drivenBy runs a compiled test in a folder (empty: this one); it takes its work
// from a variable and writes its outcome to a file.
func drivenBy(ctx context.Context, program, dir, test, variable string, work any, file string, out any) error {
	text, err := json.Marshal(work)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "-test.run=^"+test+"$", "-test.timeout=5m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if screen, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(screen)))
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// goBuild builds a package of the repository.
func goBuild(ctx context.Context, out, pkg string, module bool, flags ...string) error {
	repo, err := cluster.Repository()
	if err != nil {
		return err
	}
	args, env := append([]string{"build", "-o", out}, flags...), []string{"CGO_ENABLED=0"}
	if module {
		args, env = append(args, "-buildmode=c-shared"), append(env, "GOOS=wasip1", "GOARCH=wasm")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = repo, append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// buildBundle builds a bundle of one plugin as module, process or both, and
// seals it.
func buildBundle(ctx context.Context, dir, pkg, manifest string, transports []string, flags ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	name := filepath.Base(dir)
	for _, transport := range transports {
		out := filepath.Join(dir, name)
		if transport == "wasm" {
			out += ".wasm"
		}
		if err := goBuild(ctx, out, pkg, transport == "wasm", flags...); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte(manifest), 0o644); err != nil {
		return err
	}
	_, err := pintle(ctx, "plugin", "seal", dir)
	return err
}

// pintle runs a command of the built program.
func pintle(ctx context.Context, args ...string) (string, error) {
	bin, err := cluster.Bin()
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "pintle"), args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("pintle %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
