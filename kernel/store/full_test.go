package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a tmpfs of a size.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root to be mounted")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("pintle-store-test", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skip("this machine mounts no tmpfs: " + err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fillDisk leaves keep bytes free, until the returned function is called.
func fillDisk(t *testing.T, dir string, keep uint64) (free func()) {
	t.Helper()
	left, _, err := diskUsage(dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fmt.Sprint("ballast", keep))
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for want := int64(left) - int64(keep); want > 0; want -= 256 << 10 {
		err := unix.Fallocate(int(f.Fd()), 0, 0, want)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENOSPC) { // somebody else was quicker
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// On a disk that somebody else fills to the last byte writes are refused and name it, reads and replays go on, and
// writes come back with the room, without a restart.
func TestDiskFilledByOthers(t *testing.T) {
	disk := smallDisk(t, "160m")
	s, _ := running(t, Config{Dir: filepath.Join(disk, "data"), MemTableBytes: 4 << 20, MinFreeBytes: 32 << 20, Retention: -1})
	value := bytes.Repeat([]byte("v"), 8<<10)
	fill := func(n int) (err error) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range n {
			wg.Go(func() {
				if _, e := s.Commit(t.Context(), Write{Key: fmt.Sprintf("/k/%04d", i), Value: value, Expect: AnyRevision}); e != nil {
					mu.Lock()
					defer mu.Unlock()
					err = e
				}
			})
		}
		wg.Wait()
		return err
	}
	if err := fill(1000); err != nil { // two memory tables
		t.Fatal(err)
	}
	if used, _, err := diskUsage(disk); err != nil || used > 160<<20 {
		t.Fatal(used, err)
	}
	for _, keep := range []uint64{24 << 20, 0} {
		free := fillDisk(t, disk, keep)
		var full *DiskError
		if err := fill(50); !errors.As(err, &full) || !strings.Contains(err.Error(), "no space left for data directory "+disk) {
			t.Errorf("%d bytes left: a write: %v", keep, err)
		}
		if s.Err() == nil {
			t.Errorf("%d bytes left: the store says it is well", keep)
		}
		if kv, _, err := s.Get("/k/0007"); err != nil || !bytes.Equal(kv.Value, value) {
			t.Errorf("%d bytes left: a read: %v", keep, err)
		}
		if seen, err := s.Replay(1, 0, nil, func(*Event) bool { return true }); err != nil || seen != s.CurrentRevision() {
			t.Errorf("%d bytes left: a replay came to %d: %v", keep, seen, err)
		}
		free()
		if err := fill(50); err != nil {
			t.Errorf("after there was room again: %v", err)
		}
	}
}

// A log that has been begun has its blocks: a write into it needs no room any more.
func TestLogIsReserved(t *testing.T) {
	disk := smallDisk(t, "96m")
	s, _ := running(t, Config{Dir: filepath.Join(disk, "data"), MemTableBytes: 4 << 20, MinFreeBytes: 8 << 20, Retention: -1})
	put(t, s, "/a", "1")
	var st unix.Stat_t
	logs, _ := filepath.Glob(filepath.Join(disk, "data", "*.mem"))
	if len(logs) != 1 {
		t.Fatal(logs)
	}
	if err := unix.Stat(logs[0], &st); err != nil || st.Blocks*512 < 5<<20 {
		t.Errorf("%d bytes allocated, %v", st.Blocks*512, err)
	}
}

// With the watch over the disk switched off, a full disk ends the process by SIGBUS. What was acknowledged is there
// after a restart, which says how the former run ended.
func TestFaultOnFullDisk(t *testing.T) {
	disk := smallDisk(t, "48m")
	dir := filepath.Join(disk, "data")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STORE_TEST_CRASH_DIR="+dir, "STORE_TEST_ROUND=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	acknowledged := map[string]uint64{}
	var free func()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		key, revision, _ := strings.Cut(lines.Text(), " ")
		at, err := strconv.ParseUint(revision, 10, 64)
		if err != nil {
			continue
		}
		acknowledged[key] = at
		if len(acknowledged) == 200 {
			free = fillDisk(t, disk, 0)
		}
	}
	err = cmd.Wait()
	if err == nil || free == nil {
		t.Fatalf("the writer ended with %v after %d writes", err, len(acknowledged))
	}
	if !strings.Contains(complaint.String(), "SIGBUS") {
		t.Fatalf("the writer ended by something else: %v %.600s", err, complaint.String())
	}
	free()
	var log bytes.Buffer
	s, _ := running(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, words := range []string{"the last run ended by a fault", dir, "SIGBUS", "the disk was full or failed", "everything acknowledged is kept"} {
		if !strings.Contains(log.String(), words) {
			t.Errorf("the restart does not say %q: %s", words, log.String())
		}
	}
	for key, at := range acknowledged {
		if kv, _, err := s.Get(key); err != nil || kv.Revision != at {
			t.Errorf("%s acknowledged at %d: %d, %v", key, at, kv.Revision, err)
		}
	}
	put(t, s, "/after", "1")
	if trace, err := os.ReadFile(filepath.Join(dir, formerFault)); err != nil || !strings.Contains(string(trace), "SIGBUS") {
		t.Errorf("the trace of the former run: %.100q, %v", trace, err)
	}
}

// What the runtime says at the end of a process is a line that names the cause, and the store only where it is in it.
func TestFaultLine(t *testing.T) {
	const (
		bus  = "unexpected fault address 0x7f2ad0\nfatal error: fault\n[signal SIGBUS: bus error code=0x2 addr=0x7f2ad0 pc=0x47a0e5]\n\n"
		ours = "goroutine 77 gp=0xc0 m=5 mp=0xc0 [running]:\nruntime.throw({0x1, 0x5})\n\t/go/panic.go:1 +0x4a\nruntime.memmove()\n\t/go/memmove.s:1 +0x1\n" +
			"github.com/dgraph-io/badger/v4/table.(*buildData).Copy(0xc0001, {0x7f2ad0, 0x1, 0x1})\n\t/b/table.go:2 +0x3\n\n"
		other = "goroutine 7 [running]:\nmain.write(0x1)\n\t/main.go:1 +0x1\n\n"
	)
	full := t.TempDir()
	for name, tc := range map[string]struct {
		dir, trace  string
		want, never []string
	}{
		"the store's page": {full, bus + ours + other, []string{"data directory " + full, "SIGBUS", "in (*buildData).Copy", "KiB left", "start again", everythingKept}, nil},
		"another page":     {full, bus + other + ours, []string{"SIGBUS"}, []string{full, everythingKept}},
		"Badger's panic":   {full, "panic: while writing\n\n" + ours, []string{"the database gave up (panic: while writing", everythingKept}, nil},
		"another panic":    {full, "panic: out of ideas\n\n" + other + ours, []string{"panic: out of ideas"}, []string{full, "database"}},
		"no directory":     {"/nowhere", bus + ours, []string{"/nowhere", "no such file", everythingKept}, nil},
		"nothing":          {full, "", nil, []string{full}},
	} {
		line := Fault(tc.dir, tc.trace).Error()
		for _, words := range tc.want {
			if !strings.Contains(line, words) {
				t.Errorf("%s: no %q in %s", name, words, line)
			}
		}
		for _, words := range tc.never {
			if strings.Contains(line, words) {
				t.Errorf("%s: %q in %s", name, words, line)
			}
		}
		if strings.Contains(line, "\n") {
			t.Errorf("%s: more than a line: %q", name, line)
		}
	}
}

// A write that fails on disk ends the store: it says why, refuses what waits, and a restart serves.
func TestFailedWriteEndsTheStore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, MinFreeBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background()) }()
	put(t, s, "/a", "1")
	s.faults.Errorf(valueLogSyncFailed+": %v\n", errors.New("input/output error"))
	var disk *DiskError
	if _, err := s.Commit(t.Context(), Write{Key: "/b"}); !errors.As(err, &disk) || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("the write whose sync failed: %v", err)
	}
	if err := <-ended; !errors.As(err, &disk) || !strings.Contains(err.Error(), dir) {
		t.Errorf("the store ended with %v", err)
	}
	if _, err := s.Commit(t.Context(), Write{Key: "/c"}); !errors.Is(err, ErrClosed) {
		t.Errorf("a write afterwards: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = running(t, Config{Dir: dir})
	if kv, _, err := s.Get("/a"); err != nil || string(kv.Value) != "1" {
		t.Errorf("after the restart: %v", err)
	}
	put(t, s, "/b", "2")
}
