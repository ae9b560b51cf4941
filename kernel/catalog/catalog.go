package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/modulecache"
)

const (
	bundlesFolder = "sha256"
	originsFolder = "origins"
	stagePrefix   = ".stage-"

	maxOriginBytes = maxImageBytes*2 + maxSignatures*maxSignatureBytes*3
)

// Config says where a catalog is and whom it trusts.
type Config struct {
	Directory string   // holds the bundles; it need not be there yet
	LockFile  string   // pins them; it need not be there
	Policy    Policy   // empty: off
	Keys      []string // files of public keys, PEM
	// Directories are those of plugins.directories, and Bundles the bundles that the
	// configuration names: what is installed takes nobody's name.
	Directories, Bundles []string
	// Modules is where modules are compiled to when they are installed; nil: nowhere.
	Modules *modulecache.Cache `json:"-"`
}

// Catalog is the bundles that are installed. It may be used from several
// goroutines and, for reading, beside other processes.
type Catalog struct {
	cfg  Config
	keys []*PublicKey
	log  *slog.Logger
	lock atomic.Pointer[Lock] // of Pin
}

// New checks the configuration and reads the public keys. It makes no folder.
func New(cfg Config, log *slog.Logger) (*Catalog, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	switch cfg.Policy {
	case "":
		cfg.Policy = PolicyOff
	case PolicyOff, PolicyWarn, PolicyRequire:
	default:
		return nil, fmt.Errorf("plugins.signatures: %q; want off, warn or require", cfg.Policy)
	}
	if cfg.Directory == "" || cfg.LockFile == "" {
		return nil, errors.New("plugin catalog: the folder or the lock file is not named")
	}
	keys, err := readKeys(cfg.Keys)
	if err != nil {
		return nil, err
	}
	return &Catalog{cfg: cfg, keys: keys, log: log}, nil
}

// Lock reads the lock file.
func (c *Catalog) Lock() (*Lock, error) { return ReadLock(c.cfg.LockFile) }

// Pin makes Find answer by a lock from now on, whatever becomes of the file. It
// returns the lock that counted before.
func (c *Catalog) Pin(l *Lock) (before *Lock) { return c.lock.Swap(l) }

// Find implements plugin.Bundles by the lock: the version in use, or one that
// is installed beside it or was in use before. The manifest and the signature
// are checked each time; the artefacts are checked by who loads them.
func (c *Catalog) Find(name, version, digest string) (string, error) {
	lock := c.lock.Load()
	if lock == nil {
		var err error
		if lock, err = c.Lock(); err != nil {
			return "", err
		}
	}
	b := lock.Bundle(name)
	if b == nil {
		return "", c.notLocked(name, lock)
	}
	candidates := b.versions()
	if version == "" && digest == "" {
		candidates = candidates[:1]
	}
	for i := range candidates {
		v := &candidates[i]
		if (version == "" || v.Version == version) && (digest == "" || v.has(digest)) {
			dir, _, err := c.check(name, v)
			return dir, err
		}
	}
	var have []string
	for _, v := range candidates {
		have = append(have, v.Version+" ("+v.Digest+")")
	}
	wanted := "version " + version
	switch {
	case version == "":
		wanted = "a build with digest " + digest
	case digest != "":
		wanted += " with digest " + digest
	}
	return "", absent(fmt.Sprintf("plugin bundle %s: %s is not installed; there are: %s", name, wanted, strings.Join(have, ", ")))
}

// Replaces implements plugin.Bundles by the lock: an operator said so of that
// very bundle.
func (c *Catalog) Replaces(name string) bool {
	lock := c.lock.Load()
	if lock == nil {
		var err error
		if lock, err = c.Lock(); err != nil {
			return false
		}
	}
	b := lock.Bundle(name)
	return b != nil && b.Version.Replaces
}

// Builds implements plugin.Bundles by the lock: what is installed beside and is one
// version, or else what was in use before.
func (c *Catalog) Builds(name, version string) []string {
	lock := c.lock.Load()
	if lock == nil {
		var err error
		if lock, err = c.Lock(); err != nil {
			return nil
		}
	}
	b := lock.Bundle(name)
	if b == nil || b.Version.Version == version && !slices.ContainsFunc(b.Beside, func(v Version) bool { return v.Version == version }) {
		return nil
	}
	for _, list := range [][]Version{append([]Version{b.Version}, b.Beside...), b.Previous} {
		var out []string
		for _, v := range list {
			if v.Version == version {
				out = append(out, v.Digest)
			}
		}
		switch len(out) {
		case 0:
			continue
		case 1:
			return nil
		}
		return out
	}
	return nil
}

// folder is where a bundle of a digest lies.
func (c *Catalog) folder(digest string) string {
	return filepath.Join(c.cfg.Directory, bundlesFolder, strings.TrimPrefix(digest, "sha256:"))
}

func (c *Catalog) originFile(digest string) string {
	return filepath.Join(c.cfg.Directory, originsFolder, strings.TrimPrefix(digest, "sha256:")+".json")
}

// check compares a version of the lock with the catalog.
func (c *Catalog) check(name string, v *Version) (dir string, m *manifest.Manifest, err error) {
	dir = c.folder(v.Digest)
	path := filepath.Join(dir, manifest.File)
	data, err := readBounded(path, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		// Not fs.ErrNotExist to others, who would look elsewhere: what is locked counts.
		return "", nil, fmt.Errorf("plugin bundle %s %s: %s names %s, which is not in the catalog %s; run pintle plugin install without a source, which installs what the lock names",
			name, v.Version, c.cfg.LockFile, v.Digest, c.cfg.Directory)
	}
	if err != nil {
		return "", nil, fmt.Errorf("plugin bundle %s %s: %w", name, v.Version, err)
	}
	if got := digestOf(data); got != v.Digest {
		return "", nil, fmt.Errorf("plugin bundle %s %s: %s has digest %s, %s wants %s: %w; it was changed after it was installed: install it again",
			name, v.Version, path, got, c.cfg.LockFile, v.Digest, ErrDigest)
	}
	if m, err = manifest.Parse(path, data); err != nil {
		return "", nil, err
	}
	// A lock that was written by hand may say otherwise than the bundle.
	want := versionOf(m, v.Digest, "")
	if m.Name != name || m.Version != v.Version {
		return "", nil, fmt.Errorf("plugin bundle %s %s: %s names %s for it, which is %s %s; install it again", name, v.Version, c.cfg.LockFile, v.Digest, m.Name, m.Version)
	}
	for what, digest := range want.Artifacts {
		if v.Artifacts[what] != digest {
			return "", nil, fmt.Errorf("plugin bundle %s %s: %s says that %s has digest %q, its manifest %s: %w; install it again",
				name, v.Version, c.cfg.LockFile, what, v.Artifacts[what], digest, ErrDigest)
		}
	}
	for i := range m.Artifacts.Files {
		if err := checkFile(name, dir, &m.Artifacts.Files[i]); err != nil {
			return "", nil, err
		}
	}
	if c.cfg.Policy == PolicyOff {
		return dir, m, nil
	}
	o, err := c.origin(v.Digest)
	if err != nil {
		return "", nil, fmt.Errorf("plugin bundle %s %s: %w", name, v.Version, err)
	}
	if _, err := c.judge(m, v.Reference, o.Image, o.Signatures); err != nil {
		return "", nil, err
	}
	return dir, m, nil
}

func checkFile(name, dir string, a *manifest.Artifact) error {
	path := filepath.Join(dir, filepath.FromSlash(a.Path))
	got, err := manifest.FileDigest(path)
	if err != nil {
		return fmt.Errorf("plugin bundle %s: %w; install it again", name, err)
	}
	if got != a.Digest {
		return fmt.Errorf("plugin bundle %s: %s has digest %s, want %s: %w; it was changed after it was installed: install it again", name, path, got, a.Digest, ErrDigest)
	}
	return nil
}

// origin is what is kept of where a bundle came from.
type origin struct {
	Source     string      `json:"source"`
	Installed  time.Time   `json:"installed"`
	Image      []byte      `json:"image"` // base64 in JSON
	Signatures []Signature `json:"signatures,omitempty"`
}

// origin reads it and checks that it speaks of the bundle.
func (c *Catalog) origin(digest string) (*origin, error) {
	path := c.originFile(digest)
	data, err := readBounded(path, maxOriginBytes)
	if err != nil {
		return nil, fmt.Errorf("its signature: %w; install it again", err)
	}
	o := &origin{}
	if err := json.Unmarshal(data, o); err != nil {
		return nil, fmt.Errorf("its signature: %s: %w; install it again", path, err)
	}
	named, err := namedBundle(o.Image)
	if err != nil {
		return nil, fmt.Errorf("its signature: %s: %w; install it again", path, err)
	}
	if named != digest {
		return nil, fmt.Errorf("its signature: %s speaks of %s, and this is %s: %w; install it again", path, named, digest, ErrDigest)
	}
	return o, nil
}

// Use says what a bundle of the catalog is there for.
type Use string

// Uses.
const (
	UseCurrent  Use = "current"
	UseBeside   Use = "beside"
	UsePrevious Use = "previous"
	UseNone     Use = ""
)

// Entry is one bundle of the catalog.
type Entry struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	Digest    string            `json:"digest"`
	Use       Use               `json:"use,omitempty"`
	Bytes     int64             `json:"bytes"`
	Directory string            `json:"directory"`
	Artifacts map[string]string `json:"artifacts,omitempty"`
	// Fault is why it cannot be used, where it cannot.
	Fault string `json:"fault,omitempty"`
}

// List is every bundle of the catalog, by name and version.
func (c *Catalog) List() ([]Entry, error) {
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	found, err := os.ReadDir(filepath.Join(c.cfg.Directory, bundlesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("plugin catalog: %w", err)
	}
	var out []Entry
	for _, f := range found {
		digest := "sha256:" + f.Name()
		if !f.IsDir() || !lockDigest.MatchString(digest) {
			continue
		}
		e := Entry{Digest: digest, Directory: c.folder(digest)}
		if e.Bytes, err = sizeOf(e.Directory); err != nil {
			return nil, fmt.Errorf("plugin catalog: %w", err)
		}
		path := filepath.Join(e.Directory, manifest.File)
		data, err := readBounded(path, 1<<20)
		if err == nil && digestOf(data) != digest {
			err = fmt.Errorf("%s has digest %s, want %s: %w", path, digestOf(data), digest, ErrDigest)
		}
		var m *manifest.Manifest
		if err == nil {
			m, err = manifest.Parse(path, data)
		}
		if err != nil {
			e.Fault = err.Error()
		} else {
			e.Name, e.Version, e.Artifacts = m.Name, m.Version, versionOf(m, digest, "").Artifacts
		}
		e.Use = lock.use(digest)
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return strings.Compare(a.Name+"\x00"+a.Version+"\x00"+a.Digest, b.Name+"\x00"+b.Version+"\x00"+b.Digest)
	})
	return out, nil
}

func (l *Lock) use(digest string) Use {
	for i := range l.Bundles {
		b := &l.Bundles[i]
		is := func(v Version) bool { return v.Digest == digest }
		switch {
		case is(b.Version):
			return UseCurrent
		case slices.ContainsFunc(b.Beside, is):
			return UseBeside
		case slices.ContainsFunc(b.Previous, is):
			return UsePrevious
		}
	}
	return UseNone
}

func sizeOf(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}
