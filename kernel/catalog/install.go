package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/wasm"
)

// InstallOptions say how a bundle is installed.
type InstallOptions struct {
	SourceOptions
	// Beside installs the version next to the one in use, which stays.
	Beside bool
	// Digest, if not empty, is the only bundle that is taken; nobody is asked then.
	Digest string
	// Try is asked about a bundle when it is in the catalog and the lock does not
	// name it yet; an error ends the installation. Loaded is asked when the lock
	// names it; an error takes that back. Nil: nobody is asked.
	Try, Loaded func(context.Context, *Installed) error
	// Replace lets it take the place of the bundle of that name in
	// plugins.directories, Downgrade that of a higher version.
	Replace, Downgrade bool
	// Confirm is asked before anything is changed, once everything about the package
	// was checked; an error ends the installation. Nil: nobody is asked.
	Confirm func(*Asked) error
}

// Installed is what an installation did.
type Installed struct {
	Name      string   `json:"name"`
	Version   string   `json:"version"`
	Digest    string   `json:"digest"`
	Source    string   `json:"source"`
	Directory string   `json:"directory"`
	Plugins   []string `json:"plugins"`
	// Artifacts are the digests of everything that the package offers.
	Artifacts map[string]string `json:"artifacts"`
	Signature *Verified         `json:"signature,omitempty"`
	// Present: the bundle was in the catalog already.
	Present bool `json:"present,omitempty"`
	Beside  bool `json:"beside,omitempty"`
	// Privileged: its manifest asks for the kernel's own rights.
	Privileged bool `json:"privileged,omitempty"`
	// Previous is the version that was in use until now.
	Previous string `json:"previous,omitempty"`
}

// Install takes a bundle from a source into the catalog and locks it.
func (c *Catalog) Install(ctx context.Context, source string, o InstallOptions) (*Installed, error) {
	out, version, err := c.install(ctx, source, o)
	if err != nil {
		return nil, err
	}
	if o.Try != nil && !o.Beside {
		if err := o.Try(ctx, out); err != nil {
			return nil, err
		}
	}
	var before *Locked
	err = changeLock(c.cfg.LockFile, func(l *Lock) error {
		before = l.former(out.Name)
		if b := l.Bundle(out.Name); b != nil && b.Version.Digest != out.Digest && !o.Beside {
			out.Previous = b.Version.Version
		}
		l.put(out.Name, version, o.Beside)
		return nil
	})
	if err == nil && !o.Beside {
		err = c.confirm(ctx, out, before, o.Loaded)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Restore installs what the lock file names and the catalog lacks.
func (c *Catalog) Restore(ctx context.Context, o InstallOptions) ([]Installed, error) {
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	var out []Installed
	for i := range lock.Bundles {
		b := &lock.Bundles[i]
		for _, v := range append([]Version{b.Version}, b.Beside...) {
			if dir, _, err := c.check(b.Name, &v); err == nil && c.whole(b.Name, dir) == nil {
				continue
			} else if errors.Is(err, ErrSignature) {
				return out, err // another copy would not be signed better
			}
			if v.Source == "" || v.Source == Standard {
				return out, fmt.Errorf("plugin bundle %s %s: the lock file does not say where it came from; install %s from its package", b.Name, v.Version, v.Digest)
			}
			one := o
			one.Digest = v.Digest
			got, _, err := c.install(ctx, v.Source, one)
			if err != nil {
				return out, err
			}
			out = append(out, *got)
		}
	}
	return out, nil
}

// install puts a bundle into the catalog.
func (c *Catalog) install(ctx context.Context, source string, o InstallOptions) (_ *Installed, v Version, err error) {
	bundles := filepath.Join(c.cfg.Directory, bundlesFolder)
	for _, dir := range []string{bundles, filepath.Join(c.cfg.Directory, originsFolder)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, v, fmt.Errorf("plugin catalog: %w", err)
		}
	}
	p, err := Open(ctx, source, bundles, o.SourceOptions)
	if err != nil {
		return nil, v, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	m := p.Manifest
	if o.Digest != "" && p.Digest != o.Digest {
		return nil, v, fmt.Errorf("%s from %s: it has digest %s, want %s: %w; the package was changed: install it anew to take it", words(m), source, p.Digest, o.Digest, ErrDigest)
	}
	if m.Artifacts.WASM == nil && m.Artifacts.ProcessFor(manifest.Platform()) == nil {
		return nil, v, fmt.Errorf("%s: it has no build for %s; it has: %s", words(m), manifest.Platform(), strings.Join(slices.Sorted(maps.Keys(m.Artifacts.Platforms)), ", "))
	}
	reference := referenceOf(source)
	verified, err := c.trust(p, reference)
	if err != nil {
		return nil, v, err
	}
	if err := c.permitted(p, verified, &o); err != nil {
		return nil, v, err
	}
	v = versionOf(m, p.Digest, p.Source)
	v.Reference, v.Replaces = reference, o.Replace && !o.Beside
	out := &Installed{
		Name: m.Name, Version: m.Version, Digest: p.Digest, Source: p.Source, Directory: c.folder(p.Digest),
		Artifacts: v.Artifacts, Signature: verified, Beside: o.Beside, Privileged: m.Privileged,
	}
	if verified != nil {
		v.SignedBy = verified.Key
	}
	for _, e := range m.Plugins {
		out.Plugins = append(out.Plugins, e.Name)
	}
	if c.whole(m.Name, out.Directory) == nil {
		out.Present = true
	} else {
		o.tell("compile", 0, 0)
		if err := wasm.Compile(ctx, p.Directory, c.cfg.Modules); err != nil {
			return nil, v, err
		}
		if err := settle(m, p.Directory); err != nil {
			return nil, v, fmt.Errorf("%s: %w", words(m), err)
		}
	}
	unlock, err := flock(c.cfg.Directory)
	if err != nil {
		return nil, v, fmt.Errorf("plugin catalog: %w", err)
	}
	defer unlock()
	// The signature first: a bundle that is there has one.
	record, err := json.Marshal(origin{Source: p.Source, Installed: time.Now().UTC().Truncate(time.Second), Image: p.Image, Signatures: p.Signatures})
	if err != nil {
		return nil, v, err
	}
	if err := writeWhole(c.originFile(p.Digest), record, 0o644); err != nil {
		return nil, v, fmt.Errorf("plugin catalog: %w", err)
	}
	if !out.Present {
		if err := c.place(p.Directory, out.Directory, p.work); err != nil {
			return nil, v, fmt.Errorf("plugin catalog: %w", err)
		}
	}
	return out, v, nil
}

// trust applies the policy to a package.
func (c *Catalog) trust(p *Package, reference string) (*Verified, error) {
	verified, err := c.judge(p.Manifest, reference, p.Image, p.Signatures)
	if err != nil && p.unread != nil {
		err = fmt.Errorf("%w (%w)", err, p.unread)
	}
	return verified, err
}

// whole reports what of an installed bundle is missing or changed: everything
// that this platform needs is read.
func (c *Catalog) whole(name, dir string) error {
	data, err := readBounded(filepath.Join(dir, manifest.File), 1<<20)
	if err != nil {
		return err
	}
	if got, want := digestOf(data), "sha256:"+filepath.Base(dir); got != want {
		return fmt.Errorf("plugin bundle %s: %s has digest %s, want %s: %w; it was changed after it was installed: install it again",
			name, filepath.Join(dir, manifest.File), got, want, ErrDigest)
	}
	m, err := manifest.Parse(filepath.Join(dir, manifest.File), data)
	if err != nil {
		return err
	}
	for _, a := range needed(m, manifest.Platform(), false) {
		if err := checkFile(m.Name, dir, &a); err != nil {
			return err
		}
	}
	return nil
}

// settle makes a staged bundle read-only and durable.
func settle(m *manifest.Manifest, dir string) error {
	var folders []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			folders = append(folders, path)
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		mode := fs.FileMode(0o444)
		if executable(m, filepath.ToSlash(name)) {
			mode = 0o555
		}
		return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	})
	if err != nil {
		return err
	}
	// The deepest first, and the bundle's own when it lies in its place.
	for _, f := range slices.Backward(folders) {
		if err := syncFolder(f); err != nil {
			return err
		}
		if name, _ := filepath.Rel(dir, f); name != "." {
			if err := os.Chmod(f, 0o555); err != nil {
				return err
			}
		}
	}
	return nil
}

// place renames a bundle into its place; a damaged one there gives way.
func (c *Catalog) place(from, to, work string) error {
	if _, err := os.Lstat(to); err == nil {
		if err := os.Chmod(to, 0o755); err != nil {
			return err
		}
		if err := os.Rename(to, filepath.Join(work, "damaged")); err != nil {
			return err
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to, 0o555), syncFolder(filepath.Dir(to)))
}

// Verify checks a bundle of the lock wholly: digests of all that is there, and
// the signature by the policy.
func (c *Catalog) Verify(name string) (*Installed, error) {
	lock, err := c.Lock()
	if err != nil {
		return nil, err
	}
	b := lock.Bundle(name)
	if b == nil {
		return nil, c.notLocked(name, lock)
	}
	dir, m, err := c.check(name, &b.Version)
	if err != nil {
		return nil, err
	}
	if err := c.whole(name, dir); err != nil {
		return nil, err
	}
	out := &Installed{Name: name, Version: m.Version, Digest: b.Version.Digest, Source: b.Source, Directory: dir, Artifacts: b.Artifacts, Present: true}
	for _, e := range m.Plugins {
		out.Plugins = append(out.Plugins, e.Name)
	}
	if o, err := c.origin(b.Version.Digest); err == nil {
		out.Signature, err = c.judge(m, b.Reference, o.Image, o.Signatures)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// VerifySource does with a package all that Install does before it is taken.
func (c *Catalog) VerifySource(ctx context.Context, source string, o SourceOptions) (_ *Installed, err error) {
	o.All = true
	p, err := Open(ctx, source, "", o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return c.verified(p, source)
}

// verified is what a package would be if it were installed.
func (c *Catalog) verified(p *Package, source string) (*Installed, error) {
	verified, err := c.trust(p, referenceOf(source))
	if err != nil {
		return nil, err
	}
	out := &Installed{
		Name: p.Manifest.Name, Version: p.Manifest.Version, Digest: p.Digest, Source: p.Source,
		Artifacts: versionOf(p.Manifest, p.Digest, "").Artifacts, Signature: verified,
	}
	for _, e := range p.Manifest.Plugins {
		out.Plugins = append(out.Plugins, e.Name)
	}
	return out, nil
}

// Remove takes a bundle out of the lock; what nobody names any more GC removes.
func (c *Catalog) Remove(name string) (removed Locked, err error) {
	err = changeLock(c.cfg.LockFile, func(l *Lock) error {
		b := l.Bundle(name)
		if b == nil {
			return c.notLocked(name, l)
		}
		removed = *b
		l.Bundles = slices.DeleteFunc(l.Bundles, func(x Locked) bool { return x.Name == name })
		return nil
	})
	return removed, err
}

// GC removes the bundles that neither the lock nor keep names; it returns
// them. With dry nothing is removed.
func (c *Catalog) GC(keep func(Entry) bool, dry bool) (gone []Entry, err error) {
	if _, err := os.Stat(c.cfg.Directory); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	unlock, err := flock(c.cfg.Directory)
	if err != nil {
		return nil, fmt.Errorf("plugin catalog: %w", err)
	}
	defer unlock()
	all, err := c.List()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Use != UseNone || keep(e) {
			continue
		}
		gone = append(gone, e)
		if dry {
			continue
		}
		// It is no bundle any more before the first file of it is gone.
		trash, err := os.MkdirTemp(filepath.Dir(e.Directory), stagePrefix)
		if err == nil {
			err = os.Chmod(e.Directory, 0o755)
		}
		if err == nil {
			err = os.Rename(e.Directory, filepath.Join(trash, "bundle"))
		}
		if err = errors.Join(err, removeTree(trash), removeFile(c.originFile(e.Digest))); err != nil {
			return gone, fmt.Errorf("plugin catalog: %w", err)
		}
	}
	if dry {
		return gone, nil
	}
	return gone, c.sweep()
}

// staleAfter is when what a broken-off installation left counts as left.
const staleAfter = time.Hour

func (c *Catalog) sweep() error {
	dir := filepath.Join(c.cfg.Directory, bundlesFolder)
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range found {
		info, infoErr := f.Info()
		if strings.HasPrefix(f.Name(), stagePrefix) && infoErr == nil && time.Since(info.ModTime()) > staleAfter {
			err = errors.Join(err, removeTree(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
