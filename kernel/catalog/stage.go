package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// What a package may be at most.
const (
	maxBytes   = 1 << 30 // of all files together
	maxEntries = 10_000
	// maxRatio is of bytes to compressed bytes, counted after freeBytes. Builds
	// shrink to a third, a text to a tenth; a bomb to a thousandth.
	maxRatio  = 100
	freeBytes = 16 << 20
	maxPath   = 255
)

// limits are what a package may be; tests have smaller ones.
type limits struct {
	bytes, free int64
	entries     int
	ratio       int64
}

func standardLimits() limits {
	return limits{bytes: maxBytes, free: freeBytes, entries: maxEntries, ratio: maxRatio}
}

// file is one that was staged.
type file struct {
	digest string
	size   int64
}

// stage is a folder in which a package is put together before it counts.
type stage struct {
	dir    string
	root   *os.Root
	limits limits
	left   int64 // bytes that may still come
	files  map[string]file
	folded map[string]string // names that some file systems take for one
}

func newStage(dir string, l limits) (*stage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	return &stage{dir: dir, root: root, limits: l, left: l.bytes, files: map[string]file{}, folded: map[string]string{}}, nil
}

func (s *stage) close() error { return s.root.Close() }

// entryName brings the name of an entry to the form that manifests use, or
// says why there may be none of that name.
func entryName(name string) (string, error) {
	switch {
	case len(name) > maxPath:
		return "", refused("the name of an entry is %d bytes long; %d are allowed", len(name), maxPath)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) }):
		return "", refused("entry %q: its name has other than printable letters", name)
	case strings.HasPrefix(name, "/"):
		return "", refused("entry %q: its path is absolute", name)
	}
	clean := path.Clean(name)
	if !filepath.IsLocal(clean) {
		return "", refused("entry %q: its path leads out of the package", name)
	}
	return clean, nil
}

// claim takes a name once.
func (s *stage) claim(name string) error {
	folded := strings.ToLower(name)
	if other, ok := s.folded[folded]; ok {
		if other == name {
			return refused("entry %q is there twice", name)
		}
		return refused("entries %q and %q differ in the case of letters only", other, name)
	}
	if len(s.files) >= s.limits.entries {
		return refused("it has more than %d entries", s.limits.entries)
	}
	s.folded[folded] = name
	return nil
}

// add writes one file, bounded and hashed; name is clean.
func (s *stage) add(name string, r io.Reader, mode fs.FileMode) (_ file, err error) {
	if err := s.claim(name); err != nil {
		return file{}, err
	}
	if dir := path.Dir(name); dir != "." {
		if err := s.root.MkdirAll(dir, 0o755); err != nil {
			return file{}, refused("entry %q: %w", name, err)
		}
	}
	out, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return file{}, refused("entry %q: %w", name, err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(r, s.left+1))
	if s.left -= n; s.left < 0 {
		return file{}, refused("it has more than %d bytes", s.limits.bytes)
	}
	if err != nil {
		return file{}, fmt.Errorf("entry %q: %w", name, err)
	}
	f := file{digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), size: n}
	s.files[name] = f
	return f, nil
}

// digestOf is the digest of bytes as manifests write it.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// needed are the artefacts without which a bundle is of no use to a platform;
// with all set, every artefact that the manifest names. Each path is there once.
func needed(m *manifest.Manifest, platform string, all bool) []manifest.Artifact {
	a := m.Artifacts
	if !all {
		mine := manifest.Artifacts{WASM: a.WASM, Process: a.ProcessFor(platform), Files: a.Files}
		a = mine
	}
	var out []manifest.Artifact
	seen := map[string]bool{}
	for _, x := range a.All() {
		if !seen[x.Path] {
			seen[x.Path] = true
			out = append(out, x)
		}
	}
	return out
}

// executable reports whether a path is one of the process builds.
func executable(m *manifest.Manifest, name string) bool {
	if p := m.Artifacts.Process; p != nil && p.Path == name {
		return true
	}
	for _, p := range m.Artifacts.Platforms {
		if p.Path == name {
			return true
		}
	}
	return false
}
