package modulecache

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

// answering is a module whose export f answers with a number.
func answering(n byte) []byte {
	return []byte{
		0, 'a', 's', 'm', 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7f, 3, 2, 1, 0, 7, 5, 1, 1, 'f', 0, 0, 10, 6, 1, 4, 0, 0x41, n, 11,
	}
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// use runs a module by way of a cache, as the host does. kept: it was not compiled.
func use(t testing.TB, c *Cache, module []byte) (answer uint64, kept bool) {
	t.Helper()
	m := c.Open(digestOf(module), "as-it-is")
	defer m.Done()
	prepared := m.Prepared
	if kept = prepared != nil; !kept {
		prepared = module
	}
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(m.Compilation))
	defer func() {
		if err := errors.Join(r.Close(ctx), m.Compilation.Close(ctx)); err != nil {
			t.Error(err)
		}
	}()
	compiled, err := r.CompileModule(ctx, prepared)
	if err != nil {
		t.Error(err)
		return 0, kept
	}
	m.Keep(prepared)
	m.Done()
	instance, err := r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig())
	if err != nil {
		t.Error(err)
		return 0, kept
	}
	out, err := instance.ExportedFunction("f").Call(ctx)
	if err != nil {
		t.Error(err)
		return 0, kept
	}
	return out[0], kept
}

type fixture struct {
	*Cache
	data string
	said *strings.Builder
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{data: filepath.Join(t.TempDir(), "data")}
	f.again()
	return f
}

// again is the cache of the next process.
func (f *fixture) again() {
	f.said = &strings.Builder{}
	f.Cache = Of(f.data, slog.New(slog.NewTextHandler(f.said, nil)))
}

func (f *fixture) entry(module []byte) string {
	return filepath.Join(f.dir, digestOf(module)+entrySuffix)
}

func TestKept(t *testing.T) {
	f := newFixture(t)
	if got, kept := use(t, f.Cache, answering(42)); got != 42 || kept {
		t.Fatalf("first: %d, kept %v", got, kept)
	}
	f.again()
	if got, kept := use(t, f.Cache, answering(42)); got != 42 || !kept {
		t.Fatalf("second: %d, kept %v\n%s", got, kept, f.said)
	}
	if f.said.Len() > 0 {
		t.Errorf("log: %s", f.said)
	}
	// Nothing but the entry is left, and nobody else can read it.
	files, err := os.ReadDir(f.dir)
	if err != nil || len(files) != 1 {
		t.Errorf("left: %v, %v", files, err)
	}
	for path, want := range map[string]fs.FileMode{f.dir: 0o700, filepath.Dir(f.keyFile): 0o700, f.keyFile: 0o600, f.entry(answering(42)): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info, err, want)
		}
	}
	// Without a cache it runs as well.
	if got, kept := use(t, nil, answering(42)); got != 42 || kept {
		t.Errorf("without: %d, kept %v", got, kept)
	}
	if f.Existing() != f.Cache || Of(t.TempDir(), nil).Existing() != nil || (*Cache)(nil).Existing() != nil {
		t.Error("Existing")
	}
}

// What anybody put into the folder is not executed: the module is compiled anew, and
// the log says so.
func TestForgedEntries(t *testing.T) {
	mine, other := answering(42), answering(7)
	copyFile := func(from, to string) error {
		data, err := os.ReadFile(from)
		return errors.Join(err, os.WriteFile(to, data, 0o600))
	}
	edit := func(change func([]byte) []byte) func(*fixture) error {
		return func(f *fixture) error {
			data, err := os.ReadFile(f.entry(mine))
			if err != nil {
				return err
			}
			return os.WriteFile(f.entry(mine), change(data), 0o600)
		}
	}
	signed := func(key []byte, identity string) func([]byte) []byte {
		return func(data []byte) []byte {
			body := data[:len(data)-sha256.Size]
			body = bytes.Replace(body, []byte{0x41, 42, 11}, []byte{0x41, 7, 11}, 1)
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(identity + "\x00"))
			mac.Write(body)
			return mac.Sum(body)
		}
	}
	for name, spoil := range map[string]func(*fixture) error{
		"another module's":        func(f *fixture) error { return copyFile(f.entry(other), f.entry(mine)) },
		"moved to here":           func(f *fixture) error { return os.Rename(f.entry(other), f.entry(mine)) },
		"signed without a key":    edit(signed(nil, "")),
		"signed with another key": edit(signed(make([]byte, keySize), "")),
		"machine code changed":    edit(func(b []byte) []byte { b[len(b)-sha256.Size-20] ^= 1; return b }),
		"module changed":          edit(func(b []byte) []byte { return bytes.Replace(b, []byte{0x41, 42, 11}, []byte{0x41, 7, 11}, 1) }),
		"name changed":            edit(func(b []byte) []byte { b[headSize] ^= 1; return b }),
		"head alone":              edit(func(b []byte) []byte { return b[:headSize] }),
		"cut in the machine code": edit(func(b []byte) []byte { return b[:len(b)-100] }),
		"without its last byte":   edit(func(b []byte) []byte { return b[:len(b)-1] }),
		"one byte more":           edit(func(b []byte) []byte { return append(b, 0) }),
		"empty":                   edit(func([]byte) []byte { return nil }),
		"lengths of exabytes": edit(func(b []byte) []byte {
			copy(b[12:], "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
			return b
		}),
		"another version's": edit(func(b []byte) []byte { b[7]++; return b }),
		"a link": func(f *fixture) error {
			away := filepath.Join(f.data, "away")
			return errors.Join(os.Rename(f.entry(mine), away), os.Symlink(away, f.entry(mine)))
		},
		"a pipe": func(f *fixture) error {
			return errors.Join(os.Remove(f.entry(mine)), syscall.Mkfifo(f.entry(mine), 0o600))
		},
		"writable for all":   func(f *fixture) error { return os.Chmod(f.entry(mine), 0o666) },
		"of a former kernel": func(f *fixture) error { return os.Remove(f.keyFile) },
		"of another user": func(f *fixture) error {
			if os.Geteuid() != 0 {
				t.Skip("giving a file away needs root")
			}
			return os.Lchown(f.entry(mine), 61234, 61234)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			use(t, f.Cache, mine)
			use(t, f.Cache, other)
			if err := spoil(f); err != nil {
				t.Fatal(err)
			}
			f.again()
			got, kept := use(t, f.Cache, mine)
			if got != 42 || kept {
				t.Fatalf("%d, kept %v", got, kept)
			}
			if !strings.Contains(f.said.String(), "compiled module is not used, and made anew") {
				t.Errorf("log: %q", f.said)
			}
			f.again()
			if got, kept := use(t, f.Cache, mine); got != 42 || !kept || f.said.Len() > 0 {
				t.Errorf("after that: %d, kept %v, log %q", got, kept, f.said)
			}
		})
	}
}

// What was compared is what is executed: the file may change meanwhile.
func TestChangedWhileItIsRead(t *testing.T) {
	f := newFixture(t)
	module := answering(42)
	use(t, f.Cache, module)
	m := f.Open(digestOf(module), "as-it-is")
	defer m.Done()
	if m.code == nil {
		t.Fatal("nothing was kept")
	}
	if _, err := m.code.WriteAt([]byte{0}, 0); !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EPERM) {
		t.Errorf("write: %v", err)
	}
	if err := m.code.Truncate(0); err == nil {
		t.Error("it was truncated")
	}
	if err := os.WriteFile(f.entry(module), []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfig().WithCompilationCache(m.Compilation))
	defer r.Close(t.Context())
	if _, err := r.CompileModule(t.Context(), m.Prepared); err != nil {
		t.Error(err)
	}
	m.Keep(m.Prepared)
	if left, _ := os.ReadFile(f.entry(module)); string(left) != "evil" {
		t.Error("the module was compiled again")
	}
}

// A folder or a key that others could use is not used, and modules run all the same.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, f *fixture) error
		says  string
	}{
		"key for all to read": {func(t *testing.T, f *fixture) error { return os.Chmod(f.keyFile, 0o644) }, "others can read it"},
		"key too short":       {func(t *testing.T, f *fixture) error { return os.Truncate(f.keyFile, 5) }, "want 32 bytes"},
		"key is a link": {func(t *testing.T, f *fixture) error {
			return errors.Join(os.Rename(f.keyFile, f.keyFile+"-former"), os.Symlink(f.keyFile+"-former", f.keyFile))
		}, "too many levels"},
		"folder is a link": {func(t *testing.T, f *fixture) error {
			return errors.Join(os.Rename(f.dir, f.dir+"-former"), os.Symlink(f.dir+"-former", f.dir))
		}, "is no folder"},
		"folder is a file": {func(t *testing.T, f *fixture) error {
			return errors.Join(os.RemoveAll(f.dir), os.WriteFile(f.dir, nil, 0o600))
		}, "not a directory"},
		"folder of another user": {func(t *testing.T, f *fixture) error {
			if os.Geteuid() != 0 {
				t.Skip("giving a folder away needs root")
			}
			return os.Lchown(f.dir, 61234, 61234)
		}, "belongs to user 61234"},
		"key of another user": {func(t *testing.T, f *fixture) error {
			if os.Geteuid() != 0 {
				t.Skip("giving a file away needs root")
			}
			return os.Lchown(f.keyFile, 61234, 61234)
		}, "belongs to user 61234"},
		"disk is full": {func(t *testing.T, f *fixture) error {
			if err := unix.Mount("tmpfs", f.dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
				t.Skipf("a small disk needs root: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(f.dir, unix.MNT_DETACH) })
			return nil
		}, "are free"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			use(t, f.Cache, answering(42))
			if err := c.spoil(t, f); err != nil {
				t.Fatal(err)
			}
			f.again()
			if got, kept := use(t, f.Cache, answering(42)); got != 42 || kept {
				t.Errorf("%d, kept %v", got, kept)
			}
			if !strings.Contains(f.said.String(), c.says) {
				t.Errorf("log: %s; want %q", f.said, c.says)
			}
		})
	}
	// A folder that others could enter is closed to them.
	f := newFixture(t)
	use(t, f.Cache, answering(42))
	if err := os.Chmod(f.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	f.again()
	use(t, f.Cache, answering(42))
	if info, err := os.Stat(f.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
}

// Of those who want a module at the same time one compiles it.
func TestCompiledOnce(t *testing.T) {
	f := newFixture(t)
	var compiled atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, kept := use(t, f.Cache, answering(42)); got != 42 {
				t.Error(got)
			} else if !kept {
				compiled.Add(1)
			}
		})
	}
	all.Wait()
	if n := compiled.Load(); n != 1 {
		t.Errorf("compiled %d times", n)
	}
}

// The entries that were used longest ago make room, and so does what a killed
// process left.
func TestRoom(t *testing.T) {
	f := newFixture(t)
	old := time.Now().Add(-2 * time.Hour)
	for i := range byte(3) {
		use(t, f.Cache, answering(i+1))
		if err := os.Chtimes(f.entry(answering(i+1)), old, old.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	use(t, f.Cache, answering(1)) // it is the youngest now
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(f.entry(answering(1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := trimTo(f.dir, entries, "", 2*info.Size()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true} {
		if _, err := os.Stat(f.entry(answering(byte(i) + 1))); (err == nil) != want {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	left, fresh := filepath.Join(f.dir, viewPrefix+"1"), filepath.Join(f.dir, viewPrefix+"2")
	if err := errors.Join(os.MkdirAll(filepath.Join(left, "wazero"), 0o700), os.Chtimes(left, old, old), os.Mkdir(fresh, 0o700)); err != nil {
		t.Fatal(err)
	}
	f.again()
	use(t, f.Cache, answering(1))
	if _, err := os.Stat(left); err == nil {
		t.Error("what a killed process left is still there")
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Error("what another process may be using was removed")
	}
}

// What a start pays for an entry as large as those of Go's modules.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	code, path, key := filepath.Join(dir, "code"), filepath.Join(dir, "entry"), make([]byte, keySize)
	if err := errors.Join(os.WriteFile(code, make([]byte, 20<<20), 0o600), write(path, key, "identity", "name", make([]byte, 5<<20), code)); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e, err := read(path, key, "identity")
		if err != nil {
			b.Fatal(err)
		}
		e.code.Close()
	}
}
