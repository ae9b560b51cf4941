package toolchain

import (
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Languages that a bundle may be written in.
const (
	Go             = "go"
	C              = "c"
	AssemblyScript = "assemblyscript"
	Rust           = "rust"
	Node           = "node"
)

// Targets that a bundle may be built for.
const (
	WASM    = "wasm"
	Process = "process"
)

// MissingError says that a program of a language's tool chain is not here.
type MissingError struct {
	Language string
	Missing  string
	Packages string // Debian's, or another advice
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s needs %s, which is not here: %s", e.Language, e.Missing, e.Packages)
}

// Detect says which language the source in a folder is written in.
func Detect(dir string) (string, error) {
	has := func(patterns ...string) bool {
		for _, p := range patterns {
			if found, err := filepath.Glob(filepath.Join(dir, p)); err == nil && len(found) > 0 {
				return true
			}
		}
		return false
	}
	switch {
	case has("*.go"):
		return Go, nil
	case has("Cargo.toml"):
		return Rust, nil
	case has("assembly/*.ts"):
		return AssemblyScript, nil
	case has("package.json"):
		return Node, nil
	case has("*.c"):
		return C, nil
	}
	return "", fmt.Errorf("%s: no source of a plugin; want *.go, *.c, Cargo.toml, assembly/*.ts or package.json (pintle plugin init makes one)", dir)
}

// processOnly are packages of the SDK that no module can be built with.
var processOnly = []string{"pintle.dev/pintle/sdk/controller", "pintle.dev/pintle/sdk/runtime", "pintle.dev/pintle/sdk/proxy"}

// Targets are what the source in a folder is built for. module says whether its
// kinds can be modules at all.
func Targets(dir, language string, module bool) []string {
	switch {
	case language == Node:
		return []string{Process}
	case language != Go:
		return []string{WASM}
	case module && !imports(dir, processOnly):
		return []string{WASM, Process}
	}
	return []string{Process}
}

// imports reports whether a Go file of the folder, no test, imports one of packages.
func imports(dir string, packages []string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			continue // the compiler says it better
		}
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && slices.Contains(packages, path) {
				return true
			}
		}
	}
	return false
}

// Build is one build of a bundle.
type Build struct {
	Dir      string // of the source; the results lie there too
	Name     string // of the bundle
	Language string
	Targets  []string
	Output   io.Writer // what the compilers say; nil drops it
}

// Result is one artefact.
type Result struct {
	Target string        `json:"target"`
	Path   string        `json:"path"`
	Bytes  int64         `json:"bytes"`
	Took   time.Duration `json:"nanoseconds"`
}

// Run builds every target in order.
func (b Build) Run(ctx context.Context) ([]Result, error) {
	if b.Output == nil {
		b.Output = io.Discard
	}
	var results []Result
	for _, target := range b.Targets {
		began := time.Now()
		path := filepath.Join(b.Dir, b.Name)
		if target == WASM {
			path += ".wasm"
		}
		if err := b.one(ctx, target, path); err != nil {
			return results, err
		}
		fi, err := os.Stat(path)
		if err != nil {
			return results, fmt.Errorf("the %s tool chain left no artefact: %w", b.Language, err)
		}
		results = append(results, Result{Target: target, Path: path, Bytes: fi.Size(), Took: time.Since(began)})
	}
	return results, nil
}

func (b Build) one(ctx context.Context, target, path string) error {
	switch b.Language + " " + target {
	case "go wasm":
		return b.golang(ctx, path, "-buildmode=c-shared", "GOOS=wasip1", "GOARCH=wasm")
	case "go process":
		return b.golang(ctx, path, "-buildmode=exe", "CGO_ENABLED=0")
	case "c wasm":
		return b.c(ctx, path)
	case "assemblyscript wasm":
		return b.assemblyScript(ctx, path)
	case "rust wasm":
		return b.rust(ctx, path)
	case "node process":
		return b.node(ctx, path)
	}
	return fmt.Errorf("%s is not built as %s; it is built as %s", b.Language, target, strings.Join(Targets(b.Dir, b.Language, true), " and "))
}

// run runs a program in the folder; what it says is part of the error.
func (b Build) run(ctx context.Context, environment []string, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = b.Dir, 5*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its own children
	cmd.Env = append(os.Environ(), environment...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, b.Output), io.MultiWriter(&said, b.Output)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(program), err, tail(said.String(), 60))
	}
	return nil
}

// tail is the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func need(language, program, packages string) error {
	if _, err := exec.LookPath(program); err != nil {
		return &MissingError{language, program, packages}
	}
	return nil
}

func (b Build) golang(ctx context.Context, path, mode string, environment ...string) error {
	if err := Ready(ctx, Go); err != nil {
		return err
	}
	out, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return b.run(ctx, environment, "go", "build", "-buildvcs=false", "-ldflags=-s -w", mode, "-o", out, ".")
}

func (b Build) c(ctx context.Context, path string) error {
	if err := Ready(ctx, C); err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(b.Dir, "*.c"))
	if err != nil {
		return err
	}
	args := []string{"--target=wasm32", "-std=c11", "-O2", "-Wall", "-Wextra", "-ffreestanding", "-nostdlib",
		"-mbulk-memory", "-msign-ext", "-fvisibility=hidden", "-Wl,--no-entry", "-Wl,--strip-all", "-Wl,-z,stack-size=262144", "-o"}
	out, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	args = append(args, out)
	for _, s := range sources {
		args = append(args, filepath.Base(s))
	}
	return b.run(ctx, nil, "clang", args...)
}

// npm installs what package.json asks for, once.
func (b Build) npm(ctx context.Context) error {
	if err := Ready(ctx, b.Language); err != nil {
		return err
	}
	modules, err := os.Stat(filepath.Join(b.Dir, "node_modules"))
	asked, failed := os.Stat(filepath.Join(b.Dir, "package.json"))
	if failed != nil {
		return failed
	}
	if err == nil && !modules.ModTime().Before(asked.ModTime()) {
		return nil
	}
	if err := b.run(ctx, nil, "npm", "install", "--no-audit", "--no-fund", "--loglevel=error"); err != nil {
		return err
	}
	now := time.Now()
	return os.Chtimes(filepath.Join(b.Dir, "node_modules"), now, now)
}

func (b Build) assemblyScript(ctx context.Context, path string) error {
	if err := b.npm(ctx); err != nil {
		return err
	}
	out, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return b.run(ctx, nil, filepath.Join("node_modules", ".bin", "asc"), "assembly/index.ts", "--outFile", out,
		"--optimizeLevel", "3", "--shrinkLevel", "0", "--runtime", "incremental", "--exportStart", "_initialize",
		"--use", "abort=assembly/pintle/pintleAbort", "--disableWarning", "235")
}

func (b Build) node(ctx context.Context, path string) error {
	if err := b.npm(ctx); err != nil {
		return err
	}
	out, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// One file, so that its digest pins all of it.
	err = b.run(ctx, nil, filepath.Join("node_modules", ".bin", "esbuild"), "main.mjs", "--bundle", "--platform=node", "--format=cjs",
		"--target=node18", "--loader:.proto=text", "--log-level=warning", "--banner:js=#!/usr/bin/env node", "--outfile="+out+".cjs")
	if err != nil {
		return err
	}
	if err := os.Rename(out+".cjs", out); err != nil {
		return err
	}
	return os.Chmod(out, 0o755)
}

// rustTarget is what modules of Rust are built for.
const rustTarget = "wasm32-unknown-unknown"

func (b Build) rust(ctx context.Context, path string) error {
	cargo, environment, err := findCargo(ctx)
	if err != nil {
		return err
	}
	if err := b.run(ctx, environment, cargo, "build", "--release", "--quiet", "--target", rustTarget); err != nil {
		return err
	}
	built, err := filepath.Glob(filepath.Join(b.Dir, "target", rustTarget, "release", "*.wasm"))
	if err != nil || len(built) != 1 {
		return fmt.Errorf("cargo built %d modules, want one: set crate-type = [\"cdylib\"] in Cargo.toml", len(built))
	}
	return copyFile(built[0], path)
}

// findCargo returns a cargo whose compiler has the standard library of rustTarget:
// the one on the path, or Debian's.
func findCargo(ctx context.Context) (cargo string, environment []string, err error) {
	var candidates []string
	if found, err := exec.LookPath("cargo"); err == nil {
		candidates = append(candidates, found)
	}
	if !slices.Contains(candidates, "/usr/bin/cargo") {
		candidates = append(candidates, "/usr/bin/cargo")
	}
	for _, cargo := range candidates {
		rustc := filepath.Join(filepath.Dir(cargo), "rustc")
		out, err := exec.CommandContext(ctx, rustc, "--print", "target-libdir", "--target", rustTarget).Output()
		if err != nil {
			continue
		}
		libraries, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "libstd-*"))
		if err == nil && len(libraries) > 0 {
			return cargo, []string{"RUSTC=" + rustc}, nil
		}
	}
	return "", nil, &MissingError{Rust, "cargo with the target " + rustTarget,
		"rustup target add " + rustTarget + ", or apt install rustc cargo libstd-rust-dev-wasm32 lld"}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// Ready says whether a language's tool chain is here; the error names what is missing.
func Ready(ctx context.Context, language string) error {
	switch language {
	case Go:
		return need(Go, "go", "install Go 1.26 or later from https://go.dev/dl")
	case C:
		if err := need(C, "clang", "apt install clang lld"); err != nil {
			return err
		}
		if _, err := exec.LookPath("wasm-ld"); err != nil {
			return &MissingError{C, "wasm-ld", "apt install lld"}
		}
		return nil
	case AssemblyScript, Node:
		if err := need(language, "node", "apt install nodejs npm"); err != nil {
			return err
		}
		return need(language, "npm", "apt install npm")
	case Rust:
		_, _, err := findCargo(ctx)
		return err
	}
	return errors.ErrUnsupported
}

// TestCommand is how the author's own tests of a language are run; nil where a
// language has none beside the cases.
func TestCommand(dir, language string) []string {
	switch language {
	case Go:
		return []string{"go", "test", "./..."}
	case Node:
		if found, err := filepath.Glob(filepath.Join(dir, "*.test.mjs")); err == nil && len(found) > 0 {
			return append([]string{"node", "--test"}, names(found)...)
		}
	}
	return nil
}

func names(paths []string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = filepath.Base(p)
	}
	return out
}
