package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/unix"
)

// section of a WASM module.
func section(id byte, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

// large is a module with some megabytes of machine code: so many functions f0, f1 … of
// one i64, each of which computes something else.
func large(functions int) []byte {
	const steps = 150
	counted := func() []byte { return binary.AppendUvarint(nil, uint64(functions)) }
	kinds, exports, bodies := counted(), counted(), counted()
	for i := range functions {
		kinds = append(kinds, 0)
		name := "f" + strconv.Itoa(i)
		exports = append(append(append(exports, byte(len(name))), name...), 0)
		exports = binary.AppendUvarint(exports, uint64(i))
		body := []byte{0, 0x20, 0} // no locals; the argument
		for j := range steps {
			// + the argument, * a constant, xor a constant
			body = append(body, 0x20, 0, 0x7c, 0x42, byte(1+(i+j)%60), 0x7e, 0x42, byte(i%64), 0x85)
		}
		body = append(body, 0x0b)
		bodies = append(binary.AppendUvarint(bodies, uint64(len(body))), body...)
	}
	return slices.Concat([]byte("\x00asm\x01\x00\x00\x00"), section(1, []byte{1, 0x60, 1, 0x7e, 1, 0x7e}), section(3, kinds), section(7, exports), section(10, bodies))
}

const functions = 1500

// compile gives a module whose code is known. Collections that unmap the code of closed
// modules meanwhile can hide it: then it is compiled again.
func compile(t *testing.T) (*Module, api.Module) {
	t.Helper()
	var m *Module
	for range 50 {
		runtime.GC()
		runtime.GC()
		var err error
		if m, err = Compile(t.Context(), large(functions), wazero.NewCompilationCache(), 1<<20); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(codeOf(m), func(s span) bool { return s.end-s.start >= leastCode }) {
			break
		}
		_ = m.Close(t.Context())
	}
	t.Cleanup(func() { _ = m.Close(t.Context()) })
	instance, err := m.Instantiate(nil, &LinearMemory{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return m, instance
}

// answers are those of all functions.
func answers(t *testing.T, instance api.Module) []uint64 {
	t.Helper()
	var all []uint64
	for i := range functions {
		got, err := instance.ExportedFunction("f"+strconv.Itoa(i)).Call(t.Context(), uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, got...)
	}
	return all
}

func codeOf(m *Module) []span {
	code.mu.Lock()
	defer code.mu.Unlock()
	return slices.Clone(code.modules[m])
}

// resident is how many bytes of a span the process has mapped, and of those how many are its own.
func resident(t *testing.T, s span) (all, own int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range strings.Lines(string(smaps)) {
		fields := strings.Fields(line)
		if low, high, ok := strings.Cut(fields[0], "-"); ok && !strings.HasSuffix(fields[0], ":") {
			start, _ := strconv.ParseUint(low, 16, 64)
			end, _ := strconv.ParseUint(high, 16, 64)
			within = uintptr(start) >= s.start && uintptr(end) <= s.end
			continue
		}
		kib := 0
		if len(fields) > 1 {
			kib, _ = strconv.Atoi(fields[1])
		}
		switch {
		case within && fields[0] == "Rss:":
			all += kib << 10
		case within && fields[0] == "Anonymous:":
			own += kib << 10
		}
	}
	return all, own
}

// onDisk is a folder of a file system that is no memory.
func onDisk(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{t.TempDir(), "/var/tmp"} {
		var disk unix.Statfs_t
		if err := unix.Statfs(dir, &disk); err == nil && disk.Type != unix.TMPFS_MAGIC {
			if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
				unix.Close(fd)
				return dir
			}
		}
	}
	t.Skip("this machine has no disk for files without a name")
	return ""
}

// Machine code that was moved away while it runs computes the same, is no memory of the
// process's own any more, and leaves no file.
func TestRelease(t *testing.T) {
	dir := onDisk(t)
	m, instance := compile(t)
	want := answers(t, instance)
	spans := codeOf(m)
	if len(spans) == 0 {
		t.Fatal("the code of the module was not found")
	}
	big := slices.MaxFunc(spans, func(a, b span) int { return int(a.end-a.start) - int(b.end-b.start) })
	if size := big.end - big.start; size < leastCode {
		t.Fatalf("the module has %d bytes of code", size)
	}
	if _, own := resident(t, big); own < leastCode {
		t.Fatalf("%d bytes of code are the process's own", own)
	}
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for range 5 {
				other, err := m.Instantiate(nil, &LinearMemory{}, io.Discard)
				if err != nil {
					t.Error(err)
					return
				}
				if !slices.Equal(answers(t, other), want) {
					t.Error("other answers while the code is moved")
				}
			}
		})
	}
	for range 10 {
		if err := Release(t.Context(), dir); err != nil {
			t.Error(err)
		}
	}
	running.Wait()
	if err := Release(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if all, own := resident(t, big); all > int(big.end-big.start)/4 || own > 0 {
		t.Errorf("%d bytes are resident, %d of them the process's own", all, own)
	}
	if got := answers(t, instance); !slices.Equal(got, want) {
		t.Error("other answers from the file")
	}
	if all, own := resident(t, big); all == 0 || own > 0 {
		t.Errorf("what runs is not from the file: %d bytes are resident, %d of them the process's own", all, own)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "#*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := codeOf(m); left != nil {
		t.Errorf("a closed module has code at %v", left)
	}
	if err := Release(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

// Where there is no file, code stays as it is.
func TestReleaseToNowhere(t *testing.T) {
	m, instance := compile(t)
	want := answers(t, instance)
	if err := Release(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("released into a folder that is not there")
	}
	for _, s := range codeOf(m) {
		if s.filed {
			t.Error("it says that code is a file's")
		}
	}
	if !slices.Equal(answers(t, instance), want) {
		t.Error("other answers")
	}
	var memory unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &memory); err != nil || memory.Type != unix.TMPFS_MAGIC {
		return
	}
	if err := Release(t.Context(), "/dev/shm"); err != nil {
		t.Error(err)
	}
	for _, s := range codeOf(m) {
		if s.filed {
			t.Error("code was moved from memory to memory")
		}
	}
}

// stays fails when code is a file's.
func stays(t *testing.T, m *Module) {
	t.Helper()
	for _, s := range codeOf(m) {
		if s.filed {
			t.Error("code was moved")
		}
	}
}

// Code that the disk has not taken stays where it is, and is tried again at the next rest.
func TestReleaseToAFailingDisk(t *testing.T) {
	dir := onDisk(t)
	m, instance := compile(t)
	want := answers(t, instance)
	before := syncFile
	defer func() { syncFile = before }()
	syncFile = func(int) error { return unix.EIO }
	if err := Release(t.Context(), dir); !errors.Is(err, unix.EIO) {
		t.Errorf("released: %v", err)
	}
	stays(t, m)
	if !slices.Equal(answers(t, instance), want) {
		t.Error("other answers")
	}
	syncFile = before
	if err := Release(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(codeOf(m), func(s span) bool { return s.filed }) {
		t.Error("not moved by the next rest")
	}
}

// A folder whose files cannot be run is tried once, with one page.
func TestReleaseWhereNothingRuns(t *testing.T) {
	dir := onDisk(t)
	m, _ := compile(t)
	tries := 0
	defer func(before func(int) error) { tryToRun = before; delete(code.refused, dir) }(tryToRun)
	tryToRun = func(fd int) error {
		tries++
		var file unix.Stat_t
		if err := unix.Fstat(fd, &file); err != nil || file.Size > 0 {
			t.Errorf("%d bytes were written before, %v", file.Size, err)
		}
		return unix.EPERM
	}
	if err := Release(t.Context(), dir); !errors.Is(err, unix.EPERM) || !errors.Is(err, errRefused) {
		t.Errorf("released: %v", err)
	}
	if err := Release(t.Context(), dir); err != nil {
		t.Errorf("again: %v", err)
	}
	if tries != 1 {
		t.Errorf("tried %d times", tries)
	}
	stays(t, m)
}

// A slow disk keeps no module from being compiled and closed.
func TestReleaseWaitsAlone(t *testing.T) {
	dir := onDisk(t)
	m, _ := compile(t)
	defer func(before func(int) error) { syncFile = before }(syncFile)
	syncing, goOn := make(chan struct{}, 100), make(chan struct{})
	syncFile = func(int) error {
		syncing <- struct{}{}
		<-goOn
		return nil
	}
	released := make(chan error, 1)
	ctx := t.Context()
	go func() { released <- Release(ctx, dir) }()
	<-syncing
	other, err := Compile(t.Context(), large(3), wazero.NewCompilationCache(), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*Module{other, m} {
		if err := m.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(goOn)
	if err := <-released; err != nil {
		t.Error(err)
	}
	if codeOf(m) != nil {
		t.Error("a closed module has code")
	}
}

// Of compilations that meet, nobody knows whose code is whose.
func TestCompilationsThatMeet(t *testing.T) {
	text := large(3)
	begin := func() (end func() *Module) {
		s := beforeCompiling()
		m, err := Compile(t.Context(), text, wazero.NewCompilationCache(), 1<<20) // meets s
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close(t.Context()) })
		return func() *Module { s.compiled(m); return m }
	}
	inner := begin()
	if m := inner(); codeOf(m) != nil {
		t.Error("code of one that met another")
	}
	first, second := begin(), begin()
	if codeOf(first()) != nil || codeOf(second()) != nil {
		t.Error("code of those that overlap")
	}
	m, _ := compile(t)
	if codeOf(m) == nil {
		t.Error("no code of one that was alone")
	}
}

func TestWithout(t *testing.T) {
	at := func(ends ...uintptr) (all []span) {
		for i := 0; i < len(ends); i += 2 {
			all = append(all, span{start: ends[i], end: ends[i+1]})
		}
		return all
	}
	for name, tt := range map[string]struct{ spans, others, want []span }{
		"nothing":        {nil, nil, nil},
		"all":            {at(1, 3, 5, 9), nil, at(1, 3, 5, 9)},
		"none":           {at(1, 3, 5, 9), at(1, 3, 5, 9), nil},
		"grown behind":   {at(1, 9), at(1, 4), at(4, 9)},
		"grown before":   {at(1, 9), at(5, 9), at(1, 5)},
		"grown together": {at(1, 9), at(1, 3, 5, 9), at(3, 5)},
		"shrunk":         {at(2, 4), at(1, 9), nil},
		"apart":          {at(1, 3), at(3, 5, 0, 1), at(1, 3)},
		"in the middle":  {at(1, 9), at(3, 4, 6, 7), at(1, 3, 4, 6, 7, 9)},
	} {
		if got := without(tt.spans, tt.others); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

// Nothing of Go's own is taken for the code of a module.
func TestNoOtherCode(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(maps, []byte(exe)) || !bytes.Contains(maps, []byte("[vdso]")) {
		t.Skip("neither the program nor the system's code is in maps")
	}
	for _, s := range machineCode() {
		for line := range strings.Lines(string(maps)) {
			if strings.HasPrefix(line, strconv.FormatUint(uint64(s.start), 16)+"-") && len(strings.Fields(line)) != 5 {
				t.Errorf("taken for a module's: %s", line)
			}
		}
	}
}
