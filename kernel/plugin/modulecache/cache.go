package modulecache

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/unix"
)

const (
	// maxEntry bounds an entry, and maxCache all of them: what was used longest ago
	// goes first.
	maxEntry = 1 << 30
	maxCache = 2 << 30
	// spare must be free on the disk before an entry is written.
	spare = 64 << 20

	entrySuffix = ".module"
	viewPrefix  = "view-"
	// staleView is when a folder that a killed process left is removed.
	staleView = time.Hour
)

// Cache is the compiled modules of one kernel. nil is none.
type Cache struct {
	dir, keyFile string
	log          *slog.Logger

	mu  sync.Mutex
	key []byte
	// making are the modules that are compiled, until that has ended: who wants the
	// same one waits instead of doing it again.
	making map[string]chan struct{}
}

// New returns the cache in a folder, whose entries a key authenticates. Both are
// made when they are needed.
func New(dir, keyFile string, log *slog.Logger) *Cache {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Cache{dir: dir, keyFile: keyFile, log: log}
}

// Of is the cache of a data directory.
func Of(data string, log *slog.Logger) *Cache {
	return New(filepath.Join(data, "plugins", "cache"), filepath.Join(data, "pki", "modules.key"), log)
}

// Existing is the cache if it has a key already: for who makes nothing.
func (c *Cache) Existing() *Cache {
	if c == nil {
		return nil
	}
	if _, err := os.Lstat(c.keyFile); err != nil {
		return nil
	}
	return c
}

// Module is one module on its way through the compiler.
type Module struct {
	// Prepared is the module as it was kept; nil: prepare and compile it.
	Prepared []byte
	// Compilation is what wazero is to be given. Who opened the module closes it,
	// after the runtime.
	Compilation wazero.CompilationCache

	cache    *Cache
	making   chan struct{} // not nil: others wait for this one
	identity string
	path     string   // of the entry
	view     string   // the folder that wazero sees; empty: it compiles in memory
	folder   string   // wazero's own below it
	code     *os.File // the machine code that wazero reads
	name     string   // that it looks for
}

// Open returns what is kept of a module. The digest is that of the module as it
// was built, in hex; rewriting says what the host made of it. Done must be called.
func (c *Cache) Open(digest, rewriting string) *Module {
	m := &Module{}
	if c == nil {
		m.Compilation = wazero.NewCompilationCache()
		return m
	}
	if err := m.open(c, digest, rewriting); err != nil {
		c.log.Warn("compiled modules are not kept", "directory", c.dir, "error", err)
		m.Done()
		m.Prepared, m.view = nil, "" // what Compilation is has no engine yet
	}
	if m.view == "" {
		m.Compilation = wazero.NewCompilationCache()
	}
	return m
}

func (m *Module) open(c *Cache, digest, rewriting string) error {
	if digest == "" || strings.Trim(digest, "0123456789abcdef") != "" {
		return fmt.Errorf("module cache: %q is no digest in hex", digest)
	}
	key, err := c.ready()
	if err != nil {
		return err
	}
	if m.view, err = os.MkdirTemp(c.dir, viewPrefix); err != nil {
		return err
	}
	if m.Compilation, err = wazero.NewCompilationCacheWithDir(m.view); err != nil {
		return err
	}
	// Its name has wazero's version and the target.
	inside, err := os.ReadDir(m.view)
	if err != nil || len(inside) != 1 {
		return fmt.Errorf("module cache: wazero made %d folders in %s, want one: %w", len(inside), m.view, errors.Join(err))
	}
	m.cache, m.folder, m.path = c, filepath.Join(m.view, inside[0].Name()), filepath.Join(c.dir, digest+entrySuffix)
	m.identity = strings.Join([]string{"pintle compiled module", digest, rewriting, inside[0].Name()}, "\n")
	e, err := read(m.path, key, m.identity)
	if err != nil {
		if before := m.claim(); before {
			e, err = read(m.path, key, m.identity)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.room()
	case err != nil:
		c.log.Warn("compiled module is not used, and made anew", "file", m.path, "error", err)
		return c.room()
	}
	m.code, m.name = e.code, e.name
	// wazero follows it to memory, not to a file that could change meanwhile.
	if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", e.code.Fd()), filepath.Join(m.folder, e.name)); err != nil {
		return err
	}
	m.Prepared = e.prepared
	now := time.Now()
	_ = os.Chtimes(m.path, now, now) // the age by which it leaves
	return nil
}

// claim waits until nobody compiles this module, and then does. It reports whether
// somebody did before.
func (m *Module) claim() (before bool) {
	c := m.cache
	for {
		c.mu.Lock()
		other := c.making[m.identity]
		if other == nil {
			if c.making == nil {
				c.making = map[string]chan struct{}{}
			}
			m.making = make(chan struct{})
			c.making[m.identity] = m.making
			c.mu.Unlock()
			return before
		}
		c.mu.Unlock()
		<-other
		before = true
	}
}

// Code is the machine code that was kept, in memory that nobody can change, and the
// name by which wazero looks for it; nil where none was. It is good until Done.
func (m *Module) Code() (code *os.File, name string) { return m.code, m.name }

// InMemory reports whether nothing of this module is read or kept.
func (m *Module) InMemory() bool { return m.view == "" }

// Keep stores what wazero compiled, if it did.
func (m *Module) Keep(prepared []byte) {
	if m.view == "" {
		return
	}
	if err := m.keep(prepared); err != nil {
		m.cache.log.Warn("compiled module is not kept; it is compiled again at the next start", "file", m.path, "error", err)
	}
}

func (m *Module) keep(prepared []byte) error {
	files, err := os.ReadDir(m.folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue // what was read
		}
		key, err := m.cache.ready()
		if err != nil {
			return err
		}
		if err := write(m.path, key, m.identity, f.Name(), prepared, filepath.Join(m.folder, f.Name())); err != nil {
			return err
		}
		return m.cache.trim(filepath.Base(m.path))
	}
	return nil
}

// Done gives back what Open took; what was compiled stays good.
func (m *Module) Done() {
	if m.making != nil {
		m.cache.mu.Lock()
		delete(m.cache.making, m.identity)
		m.cache.mu.Unlock()
		close(m.making)
		m.making = nil
	}
	if m.code != nil {
		m.code.Close()
		m.code = nil
	}
	if m.view != "" {
		os.RemoveAll(m.view)
	}
}

// ready makes folder and key, and checks that they are this user's alone.
func (c *Cache) ready() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	info, err := os.Lstat(c.dir)
	if err != nil {
		return nil, err
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	switch {
	case !info.IsDir():
		return nil, fmt.Errorf("%s is no folder", c.dir)
	case owner != os.Geteuid():
		return nil, fmt.Errorf("%s belongs to user %d; give it to the kernel's user (chown %d)", c.dir, owner, os.Geteuid())
	case info.Mode().Perm()&0o077 != 0:
		if err := os.Chmod(c.dir, 0o700); err != nil {
			return nil, err
		}
	}
	if c.key == nil {
		if c.key, err = readKey(c.keyFile); err != nil {
			return nil, err
		}
		c.sweep()
	}
	return c.key, nil
}

// room is an error where the disk cannot hold what will be compiled: the compiler
// fails when it cannot write.
func (c *Cache) room() error {
	var disk unix.Statfs_t
	if err := unix.Statfs(c.dir, &disk); err == nil && disk.Bavail*uint64(disk.Bsize) < spare {
		return fmt.Errorf("%s: less than %d MiB are free", c.dir, spare>>20)
	}
	return nil
}

// sweep removes what processes left that were killed.
func (c *Cache) sweep() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && (strings.HasPrefix(e.Name(), viewPrefix) || strings.HasPrefix(e.Name(), tempPrefix)) && time.Since(info.ModTime()) > staleView {
			os.RemoveAll(filepath.Join(c.dir, e.Name()))
		}
	}
}

// trim removes the entries that were used longest ago, until the rest fits.
func (c *Cache) trim(last string) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	return trimTo(c.dir, entries, last, maxCache)
}
