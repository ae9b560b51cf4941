package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Asked is a package whose installation an operator is asked about.
type Asked struct {
	Manifest *manifest.Manifest
	Digest   string
	// Signature is the one that counts, or nil.
	Signature *Verified
	// Current is the bundle that it would take the place of, or nil.
	Current *manifest.Manifest
}

// unsaid says that an operator has to say more.
func unsaid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrOperator, fmt.Errorf(format, args...))
}

// referenceOf is a source that is a registry's, or "".
func referenceOf(source string) string {
	if kind, name, err := kindOf(source); err == nil && kind == sourceRegistry {
		return name
	}
	return ""
}

// permitted finds what an operator has to say before a package is installed.
func (c *Catalog) permitted(p *Package, verified *Verified, o *InstallOptions) error {
	if o.Digest != "" {
		return nil // the lock has it already
	}
	lock, err := c.Lock()
	if err != nil {
		return err
	}
	m := p.Manifest
	lying, err := c.lying(m.Name)
	if err != nil {
		return err
	}
	current, locked, err := c.current(m.Name, lying, lock)
	if err != nil {
		return err
	}
	if lying != "" && !o.Beside && !o.Replace {
		return unsaid("%s: %s is a bundle of that name in plugins.directories, whose place nothing takes by its name; say --replace if this one shall, or --beside to install it next to it", words(m), lying)
	}
	if err := c.names(m, lock); err != nil {
		return err
	}
	if locked != nil && !o.Beside && !o.Downgrade && locked.Version.Digest != p.Digest {
		if err := newer(m, locked.Version.Version); err != nil {
			return err
		}
	}
	if locked == nil {
		current = nil // what is agreed to of plugins.directories is not agreed to of this one
	}
	if o.Confirm != nil {
		return o.Confirm(&Asked{Manifest: m, Digest: p.Digest, Signature: verified, Current: current})
	}
	return nil
}

// current is the manifest of the bundle that a name stands for now, and what the
// lock says of it where it is an installed one; nil where there is none. lying is
// its folder in plugins.directories.
func (c *Catalog) current(name, lying string, lock *Lock) (*manifest.Manifest, *Locked, error) {
	locked := lock.Bundle(name)
	if lying != "" && (locked == nil || !locked.Version.Replaces) {
		m, err := manifest.Read(filepath.Join(lying, manifest.File))
		return m, nil, err
	}
	if locked == nil {
		return nil, nil, nil
	}
	// One that was changed or is gone is no measure.
	_, m, err := c.check(name, &locked.Version)
	if err != nil {
		m = nil
	}
	return m, locked, nil
}

// Inspect reads a package as VerifySource does, and what its name stands for now.
func (c *Catalog) Inspect(ctx context.Context, source string, o SourceOptions) (_ *Installed, _ *Asked, err error) {
	o.All = true
	p, err := Open(ctx, source, "", o)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	out, err := c.verified(p, source)
	if err != nil {
		return nil, nil, err
	}
	lock, err := c.Lock()
	if err != nil {
		return nil, nil, err
	}
	lying, err := c.lying(out.Name)
	if err != nil {
		return nil, nil, err
	}
	current, _, err := c.current(out.Name, lying, lock)
	return out, &Asked{Manifest: p.Manifest, Digest: p.Digest, Signature: out.Signature, Current: current}, err
}

// newer refuses a version that is lower than the one in use, or cannot be told
// from a lower one.
func newer(m *manifest.Manifest, before string) error {
	if m.Version == before {
		return nil
	}
	was, err := parseVersion(before)
	is, otherErr := parseVersion(m.Version)
	err = errors.Join(err, otherErr)
	switch {
	case err != nil:
		return unsaid("%s: version %s is in use, and which of the two is the higher one cannot be told; say --downgrade if it shall take its place", words(m), before)
	case is.LessThan(was):
		return unsaid("%s: version %s is in use, which is higher; say --downgrade if this one shall take its place", words(m), before)
	}
	return nil
}

// parseVersion takes versions as semver has them, and shorter ones: 1 is 1.0.
func parseVersion(text string) (*version.Version, error) {
	if v, err := version.ParseSemantic(text); err == nil {
		return v, nil
	}
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return version.ParseGeneric(text)
}

// lying is the folder of a bundle in plugins.directories, or "".
func (c *Catalog) lying(name string) (string, error) {
	for _, dir := range c.cfg.Directories {
		path := filepath.Join(dir, name)
		switch _, err := os.Stat(filepath.Join(path, manifest.File)); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("plugins.directories: %w", err)
		}
	}
	return "", nil
}

// names refuses a package of which a name is another bundle's, or that of a plugin
// of another bundle that is installed or that the configuration names: the API
// knows plugins and bundles by their names.
func (c *Catalog) names(m *manifest.Manifest, lock *Lock) error {
	has := func(m *manifest.Manifest, name string) bool {
		return slices.ContainsFunc(m.Plugins, func(e manifest.Entry) bool { return e.Name == name })
	}
	check := func(other *manifest.Manifest, where string) error {
		for i := range m.Plugins {
			if e := &m.Plugins[i]; has(other, e.Name) {
				return unsaid("%s: its plugin %s is also in bundle %s, which %s; load one of them: pintle plugin remove, or take it out of the configuration", words(m), e.Name, other.Name, where)
			}
		}
		if has(other, m.Name) {
			return unsaid("%s: bundle %s, which %s, has a plugin of that name", words(m), other.Name, where)
		}
		return nil
	}
	for i := range m.Plugins {
		name := m.Plugins[i].Name
		if name == m.Name {
			continue
		}
		lying, err := c.lying(name)
		if err != nil {
			return err
		}
		if lying != "" || lock.Bundle(name) != nil {
			return unsaid("%s: its plugin %s has the name of another bundle", words(m), name)
		}
	}
	for i := range lock.Bundles {
		b := &lock.Bundles[i]
		if b.Name == m.Name {
			continue
		}
		// What is broken of others is told by who uses them.
		if _, other, err := c.check(b.Name, &b.Version); err == nil {
			if err := check(other, "is installed"); err != nil {
				return err
			}
		}
	}
	for _, name := range c.cfg.Bundles {
		if b, err := manifest.Find(c.cfg.Directories, name); err == nil && name != m.Name {
			if err := check(b.Manifest, "the configuration names"); err != nil {
				return err
			}
		}
	}
	return nil
}
