//go:build linux && (amd64 || arm64)

package crash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

func TestMain(m *testing.M) {
	if os.Getenv(envDir) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, "writer:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// number is a setting from the environment.
func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	word := os.Getenv(variable)
	if word == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// TestCrash: see doc.go. CRASH_ROUNDS (default 10) are shared by the two forms.
func TestCrash(t *testing.T) {
	seed := number(t, "CRASH_SEED", uint64(time.Now().UnixNano()))
	rounds := number(t, "CRASH_ROUNDS", 10)
	t.Logf("CRASH_SEED=%d CRASH_ROUNDS=%d", seed, rounds)
	for i, form := range []string{formStore, formAPI} {
		t.Run(form, func(t *testing.T) {
			c := &campaign{t: t, form: form, rng: rand.New(rand.NewPCG(seed, uint64(i))), model: newModel(), work: t.TempDir()}
			c.next = filepath.Join(c.work, "0")
			if err := os.Mkdir(c.next, 0o700); err != nil {
				t.Fatal(err)
			}
			n := (rounds + uint64(1-i)) / 2
			for round := range n {
				if c.round(int(round)); t.Failed() {
					t.Logf("CRASH_SEED=%d: failed in round %d of %d", seed, round, n)
					return
				}
			}
			t.Logf("%d rounds: %d revisions, %d syncs, %d power cuts, %d groups in flight kept and %d lost, %d revisions made void",
				n, len(c.model.events), c.syncs, c.cuts, c.kept, c.lost, c.model.voids)
		})
	}
}

// campaign is the rounds of one form on one ever older store.
type campaign struct {
	t     *testing.T
	form  string
	rng   *rand.Rand
	model *model
	work  string
	next  string // the directory of the next round
	first int64  // numbers of operations begin above it

	syncs, cuts, kept, lost int
}

func (c *campaign) round(round int) {
	t := c.t
	d, err := newDisk(c.next)
	if err != nil {
		t.Fatal(err)
	}
	killAtSync, killAfter := 0, time.Duration(c.rng.IntN(1500))*time.Millisecond
	if c.rng.IntN(3) > 0 {
		killAtSync, killAfter = 1+c.rng.IntN(250), 20*time.Second
	}
	compact := uint64(0)
	if c.rng.IntN(3) == 0 {
		compact = c.model.last()
	}
	lines := c.run(d, killAtSync, killAfter, compact)
	c.syncs += d.syncs
	how := "kill"
	after := filepath.Join(c.work, strconv.Itoa(round+1))
	if err := os.Mkdir(after, 0o700); err != nil {
		t.Fatal(err)
	}
	if c.rng.IntN(4) == 0 {
		err = d.copyAll(after)
	} else {
		lost := cut{lose: []float64{0, 0.05, 0.3, 1}[c.rng.IntN(4)], tear: []float64{0, 0.3}[c.rng.IntN(2)], names: c.rng.IntN(2) == 0}
		how = lost.String()
		c.cuts++
		err = d.image(after, lost, c.rng)
	}
	if err != nil {
		t.Fatal(err)
	}
	in, err := c.model.read(lines, compact)
	if err != nil {
		t.Errorf("round %d: %v", round, err)
		return
	}
	keep := after + ".evidence"
	if os.Getenv("CRASH_KEEP") != "" {
		if out, err := exec.Command("cp", "-a", "--sparse=always", after, keep).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := c.check(after, in); err != nil {
		t.Errorf("round %d (after %d syncs, %s; %d revisions, %d in flight): %v", round, d.syncs, how, len(c.model.events), len(in.flight), err)
		if os.Getenv("CRASH_KEEP") != "" {
			if err := os.Rename(keep, filepath.Join(os.Getenv("CRASH_KEEP"), fmt.Sprintf("%s-%d", c.form, round))); err != nil {
				t.Log(err)
			}
		}
		return
	}
	_ = os.RemoveAll(keep)
	if err := os.RemoveAll(c.next); err != nil {
		t.Fatal(err)
	}
	c.next = after
}

// run starts a child on the disk, kills it and returns its report.
func (c *campaign) run(d *disk, killAtSync int, killAfter time.Duration, compact uint64) []string {
	t := c.t
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	watches := make([]string, len(c.model.seen))
	for i, at := range c.model.seen {
		watches[i] = fmt.Sprint(at)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDir+"="+d.dir, envForm+"="+c.form, fmt.Sprint(envSeed, "=", c.rng.Uint64()),
		envWatches+"="+strings.Join(watches, ","), fmt.Sprint(envCompact, "=", compact), fmt.Sprint(envFirst, "=", c.first))
	cmd.ExtraFiles = []*os.File{theirs, reportEnd}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		killed = true
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	}
	theirs.Close()
	reportEnd.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var lines []string
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scan := bufio.NewScanner(reports); scan.Scan(); {
			lines = append(lines, scan.Text())
		}
	}()
	listener, err := receiveDescriptor(conn.(*net.UnixConn))
	if err != nil {
		kill()
		<-read
		_ = cmd.Wait()
		if len(lines) > 0 && strings.HasPrefix(lines[0], "unsupported") {
			t.Skip("this machine has no seccomp notifications: " + lines[0])
		}
		t.Fatalf("%v: %s", err, complaint.String())
	}
	defer unix.Close(listener)
	timer := time.AfterFunc(killAfter, func() { _ = cmd.Process.Kill() })
	err = listen(listener, func(call syncCall) bool {
		if call.nr != unix.SYS_OPENAT && d.syncs+1 == killAtSync {
			kill()
			return false
		}
		// A process that dies under our eyes has no maps any more; its sync does not count then.
		if err := d.sync(call); err != nil && syscall.Kill(cmd.Process.Pid, 0) == nil && !errors.Is(err, os.ErrNotExist) {
			t.Logf("a sync that counts as not done: %v", err)
		}
		return true
	})
	if err != nil {
		t.Error(err)
		kill()
	}
	_ = cmd.Wait()
	stopped := !timer.Stop() || killed
	<-read
	if !stopped {
		t.Fatalf("the writer ended by itself: %s %s", cmd.ProcessState, complaint.String())
	}
	if complaint.Len() > 0 {
		t.Fatalf("the writer complained: %s", complaint.String())
	}
	return lines
}

// check opens the store that a crash left and compares.
func (c *campaign) check(dir string, in inFlight) (err error) {
	st, err := store.Open(config(dir))
	if err != nil {
		return fmt.Errorf("opening: %w", err)
	}
	b, err := bus.New(bus.Config{}, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- st.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended, st.Close())
	}()
	whole, err := c.model.compare(st, in, c.form == formStore)
	if err != nil {
		return err
	}
	if len(in.flight) > 0 {
		if whole {
			c.kept++
		} else {
			c.lost++
		}
	}
	// The next write gets the next revision, also after another crash.
	current := st.CurrentRevision()
	revision, err := st.Commit(ctx, store.Write{Key: "/probe", Value: []byte("probe"), Expect: store.AnyRevision})
	if err != nil || revision != current+1 {
		return fmt.Errorf("the first write after revision %d got %d, %w", current, revision, err)
	}
	if err := c.model.add(revision, st); err != nil {
		return err
	}
	if err := c.model.former(st, c.rng); err != nil {
		return err
	}
	return c.model.resume(ctx, b, c.form == formStore)
}
