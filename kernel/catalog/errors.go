package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

var (
	// ErrSignature marks bundles that the policy of signatures refuses.
	ErrSignature = errors.New("signature refused")
	// ErrPackage marks packages that are damaged or made to do harm.
	ErrPackage = errors.New("package refused")
	// ErrOperator marks installations that want an operator's word first: a name is
	// taken, a version is a lower one, rights are asked for.
	ErrOperator = errors.New("not installed")
	// ErrDigest marks bytes that are others than were pinned.
	ErrDigest = manifest.ErrDigest
)

// absent is a bundle, or a version of it, that the lock does not name. It is
// fs.ErrNotExist without its words, which speak of files.
type absent string

func (a absent) Error() string   { return string(a) }
func (absent) Is(err error) bool { return err == fs.ErrNotExist }

// notLocked says that a bundle is not installed, and which are.
func (c *Catalog) notLocked(name string, l *Lock) error {
	text := "none"
	if len(l.Bundles) > 0 {
		var have []string
		for i := range l.Bundles {
			have = append(have, l.Bundles[i].Name)
		}
		text = strings.Join(have, ", ")
	}
	return absent(fmt.Sprintf("plugin bundle %s is not installed; %s names: %s", name, c.cfg.LockFile, text))
}

// refused is a package that is not taken.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrPackage, fmt.Errorf(format, args...))
}
