package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/vm/orders"
)

type options struct {
	run, kernel, way, out string
	memory                int
	limit                 time.Duration
	skips                 bool
}

func main() {
	var o options
	flag.StringVar(&o.run, "run", ".", "regular expression of the tests")
	flag.StringVar(&o.kernel, "kernel", "linux-image-amd64", "package of Debian with the kernel, or one that depends on it")
	flag.StringVar(&o.way, "accel", "auto", "kvm, tcg, or auto: KVM where a kernel of Debian boots by it, else emulation (tcg)")
	flag.IntVar(&o.memory, "memory", 2048, "of the machine, in MiB")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "longest that the tests may take")
	flag.BoolVar(&o.skips, "skips", false, "tests may be skipped")
	flag.StringVar(&o.out, "out", "build/vm", "folder of the kernel")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := run(ctx, o, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		status = 1
	}
	os.Exit(status)
}

// run runs the tests of packages in a machine, and returns its status.
func run(ctx context.Context, o options, packages []string) (int, error) {
	if runtime.GOARCH != "amd64" {
		return 0, fmt.Errorf("the kernel of the machine is one for amd64; this machine is %s", runtime.GOARCH)
	}
	if len(packages) == 0 {
		return 0, fmt.Errorf("name the packages whose tests are to run")
	}
	repo, err := output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return 0, err
	}
	out, err := filepath.Abs(o.out)
	if err != nil {
		return 0, err
	}
	if err := install(ctx); err != nil {
		return 0, err
	}
	k, err := fetch(ctx, o.kernel, out)
	if err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp(out, "run-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	jobs := orders.Orders{Word: rand.Text(), Modules: k.modules, Keep: strings.TrimSpace(repo), Limit: o.limit}
	for i, pkg := range packages {
		p, err := build(ctx, pkg, filepath.Join(work, strconv.Itoa(i)+".test"), o)
		if err != nil {
			return 0, err
		}
		jobs.Programs = append(jobs.Programs, p)
	}
	file, err := initial(ctx, k, jobs, work)
	if err != nil {
		return 0, fmt.Errorf("write the initial file system: %w", err)
	}
	begun := time.Now()
	skipped := &skips{to: os.Stdout}
	m := machine{image: k.image, initial: file, messages: filepath.Join(work, "messages"), memory: o.memory, out: skipped, log: os.Stderr}
	status, err := m.run(ctx, jobs, o.way)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(os.Stderr, "vm: status %d after %s on %s\n", status, time.Since(begun).Round(100*time.Millisecond), k.version)
	if status == 0 && skipped.n > 0 && !o.skips {
		return 0, fmt.Errorf("%d tests were skipped: the machine is there to run them", skipped.n)
	}
	return status, nil
}

// build builds the test program of a package, and says how it runs.
func build(ctx context.Context, pkg, to string, o options) (orders.Program, error) {
	folder, err := output(ctx, "", "go", "list", "-f", "{{.Dir}}", pkg)
	if err != nil {
		return orders.Program{}, err
	}
	if err := compile(ctx, "test", "-c", "-o", to, pkg); err != nil {
		return orders.Program{}, err
	}
	if _, err := os.Stat(to); err != nil {
		return orders.Program{}, fmt.Errorf("%s has no tests", pkg)
	}
	args := []string{to, "-test.v", "-test.run=" + o.run, "-test.timeout=" + o.limit.String()}
	return orders.Program{Folder: strings.TrimSpace(folder), Args: args}, nil
}

// compile runs go without cgo: the machine's first program has no libraries beside it.
func compile(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// skips counts the tests that say that they were skipped.
type skips struct {
	to io.Writer
	n  int
}

// Write implements io.Writer; each call has one line.
func (s *skips) Write(line []byte) (int, error) {
	if strings.HasPrefix(strings.TrimSpace(string(line)), "--- SKIP:") {
		s.n++
	}
	return s.to.Write(line)
}
