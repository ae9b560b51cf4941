package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/plugin/sealed"
)

// Bundle is a folder of the catalog with its manifest.
type Bundle struct {
	Directory string
	Manifest  *Manifest
	// Installed: it is of the catalog, and not of plugins.directories.
	Installed bool
}

// Digest is that of the manifest, which pins everything else of the bundle.
func (b *Bundle) Digest() (string, error) {
	data, err := sealed.Read(b.Directory)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Find returns the bundle of that name from the first directory that has it.
func Find(directories []string, name string) (*Bundle, error) {
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("plugin bundle %q: not a name of a folder", name)
	}
	for _, dir := range directories {
		path := filepath.Join(dir, name, File)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		m, err := Read(path)
		if err != nil {
			return nil, err
		}
		if m.Name != name {
			return nil, fmt.Errorf("%s:1: name is %q; want the folder's name %q", path, m.Name, name)
		}
		return &Bundle{Directory: filepath.Join(dir, name), Manifest: m}, nil
	}
	return nil, fmt.Errorf("plugin bundle %s: no folder %s with a %s in %s; build it with make or set plugins.directories",
		name, name, File, strings.Join(directories, ", "))
}

// Artifact returns the pinned build for a transport; an empty transport is
// wasm where there is a module, process otherwise.
func (b *Bundle) Artifact(transport string) (string, *Artifact, error) {
	a := &b.Manifest.Artifacts
	process := a.ProcessFor(Platform())
	switch {
	case transport == "" && a.WASM != nil, transport == TransportWASM && a.WASM != nil:
		return TransportWASM, a.WASM, nil
	case transport == "" && process != nil, transport == TransportProcess && process != nil:
		return TransportProcess, process, nil
	case transport != TransportWASM && len(a.Platforms) > 0:
		return "", nil, fmt.Errorf("plugin bundle %s: has no process build for %s; it has: %s",
			b.Manifest.Name, Platform(), strings.Join(slices.Sorted(maps.Keys(a.Platforms)), ", "))
	case transport == "":
		return "", nil, fmt.Errorf("plugin bundle %s: its manifest pins no artefact; run pintle plugin seal %s", b.Manifest.Name, b.Directory)
	}
	return "", nil, fmt.Errorf("plugin bundle %s: has no %s build; build it or choose the other transport", b.Manifest.Name, transport)
}

// Verify reads an artefact and compares its digest.
func (b *Bundle) Verify(a *Artifact, want string) (data []byte, err error) {
	path := filepath.Join(b.Directory, a.Path)
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: artefact: %w; build it with make", b.Manifest.Name, err)
	}
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != want {
		return nil, DigestError(b.Manifest.Name, path, got, want)
	}
	return data, nil
}

func DigestError(bundle, path, got, want string) error {
	return fmt.Errorf("plugin bundle %s: %s has digest %s, want %s: %w; install it again, or build and seal it again if the change was yours", bundle, path, got, want, ErrDigest)
}

// FileDigest hashes a file without holding it in memory: sha256: and 64
// hexadecimal digits.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// ErrDigest is wrapped when an artefact is not the one that its manifest names.
var ErrDigest = errors.New("digest mismatch")

func ReadBundle(dir, name string) (*Bundle, error) {
	m, err := Read(filepath.Join(dir, File))
	if err != nil {
		return nil, err
	}
	if m.Name != name {
		return nil, fmt.Errorf("plugin bundle %s: %s holds bundle %q", name, dir, m.Name)
	}
	return &Bundle{Directory: dir, Manifest: m}, nil
}

// Is reports whether a bundle is the build that was asked for.
func (b *Bundle) Is(version, digest string) bool {
	a := b.Manifest.Artifacts
	if version != "" && version != b.Manifest.Version {
		return false
	}
	if digest == "" || a.WASM != nil && a.WASM.Digest == digest || a.Process != nil && a.Process.Digest == digest {
		return true
	}
	own, err := b.Digest()
	return err == nil && own == digest
}

func (b *Bundle) Entry(name string) *Entry {
	for i := range b.Manifest.Plugins {
		if e := &b.Manifest.Plugins[i]; e.Name == name {
			return e
		}
	}
	return nil
}
