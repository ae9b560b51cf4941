package plugincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/spf13/cobra"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/plugin/sealed"
)

// quietPeriod is how long a folder must be left alone before it is built: an
// editor writes in several steps.
const quietPeriod = 200 * time.Millisecond

func newPluginDevCommand() *cobra.Command {
	var flags catalogFlags
	var test, once bool
	var enable enableFlags
	cmd := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Build and install a bundle again whenever its source changes",
		Long: `Watch the folder of a bundle. Whenever its source changes, build and seal it, and
install it into the catalog of a data directory: a kernel that runs there turns
to the new build at once, without a restart and without a cycle that sees half
of it. Each round says what was built, tested and installed, and which version is
in force; or what was wrong: the build before then stays in use, and dev goes on.
What the plugins write, and what the plugin host says of them, is printed as it
comes, after a bar.

The first time, the plugins are there and not in use, but with --enable: enable
them in the configuration, or with pintle plugin enable.

Ctrl-C ends it; the last build stays installed.

Exit codes: 0 ended by Ctrl-C, or with --once installed; 1 with --once the build
or the installation failed; 2 wrong arguments or manifest; 3 a tool chain is missing.`,
		Example: `  pintle plugin dev quiet
  pintle plugin dev quiet --data .data --test --enable`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := oneDirectory(cmd, args)
			if err != nil {
				return err
			}
			if len(enable.profiles) > 0 && !enable.on {
				return cli.UsageFault(errors.New("plugin dev: --profile says how --enable is meant: add it"))
			}
			if _, err := readSource(dir); err != nil {
				return err
			}
			c, data, err := flags.open()
			if err != nil {
				return err
			}
			ctx, stop := cli.Interruptible(cmd.Context())
			defer stop()
			d := &developer{dir: dir, catalog: c, data: data, test: test, enable: enable, out: cmd.OutOrStdout()}
			if once {
				return d.round(ctx)
			}
			err = d.watch(ctx)
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	flags.register(cmd, true)
	cmd.Flags().BoolVar(&test, "test", false, "install only what passes pintle plugin test")
	cmd.Flags().BoolVar(&once, "once", false, "build and install once, and end")
	cmd.Flags().BoolVar(&enable.on, "enable", false, "switch its plugins on in the running kernel after the first installation")
	cmd.Flags().StringArrayVar(&enable.profiles, "profile", nil, "with --enable: scheduler profile (its schedulerName) to use them in; may be repeated; default: the first")
	cmd.Flags().DurationVar(&enable.timeout, "timeout", time.Minute, "how long to wait at most until a build is in force")
	return cmd
}

// developer builds and installs a folder again and again.
type developer struct {
	dir     string
	catalog *catalog.Catalog
	data    string
	test    bool
	enable  enableFlags // on until it was done
	mu      sync.Mutex  // a line at a time
	out     io.Writer
}

func (d *developer) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// round builds, tests if it is to, and installs.
func (d *developer) round(ctx context.Context) error {
	began := time.Now()
	s, err := readSource(d.dir)
	if err != nil {
		return err
	}
	if _, err := s.build(ctx, nil, io.Discard); err != nil {
		return buildError("plugin dev", err)
	}
	d.say("built %s in %v", s.manifest.Name, time.Since(began).Round(10*time.Millisecond))
	if d.test {
		t := &tester{dir: d.dir, seeds: 5, said: io.Discard, progress: cli.NewProgress(os.Stderr)}
		if err := t.prepare(ctx, false); err != nil {
			return err
		}
		results, err := t.run(ctx)
		t.progress.Done()
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Fault != "" {
				return fmt.Errorf("plugin dev: %s, %s: %s", r.Build, r.Check, r.Fault)
			}
		}
		d.say("%d checks passed", len(results))
	}
	o := catalog.InstallOptions{Replace: true, Downgrade: true}
	if err := d.enable.withKernel(&o, d.data); err != nil {
		return fmt.Errorf("plugin dev: %w", err)
	}
	got, err := d.catalog.Install(ctx, d.dir, o)
	if err != nil {
		return fmt.Errorf("plugin dev: %w", err)
	}
	what := "installed"
	if got.Present {
		what = "installed already:"
	}
	d.say("%s %s %s, %s", what, got.Name, got.Version, got.Digest)
	if !running(d.data) {
		d.say("no kernel runs on %s; it is loaded at the next start", d.data)
		return nil
	}
	return d.enforce(ctx, got)
}

// watch goes on until ctx ends.
func (d *developer) watch(ctx context.Context) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("plugin dev: %w", err)
	}
	defer w.Close()
	if err := d.observe(w); err != nil {
		return fmt.Errorf("plugin dev: %w", err)
	}
	var logs sync.WaitGroup
	defer logs.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	logs.Go(func() { d.follow(ctx) })
	var seen map[string]string
	for {
		now, err := d.state()
		if err != nil {
			return fmt.Errorf("plugin dev: %w", err)
		}
		if !maps.Equal(seen, now) {
			if err := d.round(ctx); err != nil && ctx.Err() == nil {
				d.say("%v", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if seen, err = d.after(now); err != nil {
				return fmt.Errorf("plugin dev: %w", err)
			}
			d.say("watching %s; Ctrl-C ends it", d.dir)
		}
		if err := settle(ctx, w); err != nil {
			return err
		}
		if err := d.observe(w); err != nil { // folders that are new
			return fmt.Errorf("plugin dev: %w", err)
		}
	}
}

// settle waits for a change, and until none has come for a while.
func settle(ctx context.Context, w *fsnotify.Watcher) error {
	var quiet <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-w.Events:
			if !ok {
				return errors.New("plugin dev: the watch of the folder ended")
			}
			quiet = time.After(quietPeriod)
		case err := <-w.Errors:
			return fmt.Errorf("plugin dev: %w", err)
		case <-quiet:
			return nil
		}
	}
}

// built are folders that tool chains write to.
var built = []string{"node_modules", "target", ".git"}

// walk calls folder and file for what the source is made of.
func (d *developer) walk(folder func(path string) error, file func(path string, e fs.DirEntry) error) error {
	name := filepath.Base(mustAbs(d.dir))
	return filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went while we looked
			return nil
		case err != nil:
			return err
		case e.IsDir() && path != d.dir && slices.Contains(built, e.Name()):
			return filepath.SkipDir
		case e.IsDir():
			return folder(path)
		case path == filepath.Join(d.dir, sealed.File) || path == filepath.Join(d.dir, name) || path == filepath.Join(d.dir, name+".wasm") || strings.HasPrefix(e.Name(), "."):
			return nil
		}
		return file(path, e)
	})
}

func (d *developer) observe(w *fsnotify.Watcher) error {
	return d.walk(w.Add, func(string, fs.DirEntry) error { return nil })
}

// after is the state that was built, when before is what it began with: what a
// build writes itself counts as seen, and a source that was changed meanwhile as
// not.
func (d *developer) after(before map[string]string) (map[string]string, error) {
	now, err := d.state()
	if err != nil {
		return nil, err
	}
	for path := range now {
		if old, was := before[path]; was {
			now[path] = old
		}
	}
	return now, nil
}

// state tells one state of the source from another.
func (d *developer) state() (map[string]string, error) {
	m := map[string]string{}
	err := d.walk(func(string) error { return nil }, func(path string, e fs.DirEntry) error {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		m[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		return nil
	})
	return m, err
}
