package plugin

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

// digest is that of the manifest, which pins everything else of the bundle.
func (b *Bundle) digest() (string, error) {
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
		path := filepath.Join(dir, name, ManifestFile)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		m, err := ReadManifest(path)
		if err != nil {
			return nil, err
		}
		if m.Name != name {
			return nil, fmt.Errorf("%s:1: name is %q; want the folder's name %q", path, m.Name, name)
		}
		return &Bundle{Directory: filepath.Join(dir, name), Manifest: m}, nil
	}
	return nil, fmt.Errorf("plugin bundle %s: no folder %s with a %s in %s; build it with make or set plugins.directories",
		name, name, ManifestFile, strings.Join(directories, ", "))
}

// artifact returns the pinned build for a transport; an empty transport is
// wasm where there is a module, process otherwise.
func (b *Bundle) artifact(transport string) (string, *Artifact, error) {
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

// verify reads an artefact and compares its digest.
func (b *Bundle) verify(a *Artifact, want string) (data []byte, err error) {
	path := filepath.Join(b.Directory, a.Path)
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("plugin bundle %s: artefact: %w; build it with make", b.Manifest.Name, err)
	}
	sum := sha256.Sum256(data)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != want {
		return nil, digestError(b.Manifest.Name, path, got, want)
	}
	return data, nil
}

func digestError(bundle, path, got, want string) error {
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
