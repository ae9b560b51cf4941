package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Place returns the folder of a bundle that is in the catalog, whether the lock names
// it or not. Its manifest and its signature are checked.
func (c *Catalog) Place(name, digest string) (dir string, err error) {
	if !lockDigest.MatchString(digest) {
		return "", fmt.Errorf("plugin bundle %s: %q is no digest", name, digest)
	}
	entries, err := c.List()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Digest == digest })
	if i < 0 {
		return "", absent(fmt.Sprintf("plugin bundle %s: %s is not in the catalog %s", name, digest, c.cfg.Directory))
	}
	e := &entries[i]
	if e.Fault != "" {
		return "", errors.New(e.Fault)
	}
	dir, _, err = c.check(name, &Version{Version: e.Version, Digest: digest, Artifacts: e.Artifacts})
	return dir, err
}

// former is what a lock said of a bundle; nil: nothing.
func (l *Lock) former(name string) *Locked {
	b := l.Bundle(name)
	if b == nil {
		return nil
	}
	out := *b
	out.Beside, out.Previous = slices.Clone(b.Beside), slices.Clone(b.Previous)
	return &out
}

// confirm asks whether what the lock names now is loaded, and takes it back if not:
// unless somebody has locked another build meanwhile.
func (c *Catalog) confirm(ctx context.Context, out *Installed, before *Locked, loaded func(context.Context, *Installed) error) error {
	if loaded == nil {
		return nil
	}
	fault := loaded(ctx, out)
	if fault == nil {
		return nil
	}
	return errors.Join(fault, changeLock(c.cfg.LockFile, func(l *Lock) error {
		b := l.Bundle(out.Name)
		switch {
		case b == nil || b.Version.Digest != out.Digest:
		case before != nil:
			*b = *before
		default:
			l.Bundles = slices.DeleteFunc(l.Bundles, func(x Locked) bool { return x.Name == out.Name })
		}
		return nil
	}))
}
