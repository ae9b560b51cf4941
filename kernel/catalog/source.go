package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"oras.land/oras-go/v2/registry"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/sealed"
)

const (
	// signatureFile lies in a package beside the manifest.
	signatureFile = "signatures.json"
	// stall ends a download of which nothing came for so long.
	stall = time.Minute
	// Standard is the name of standard input as a source.
	Standard = "-"
)

// SourceOptions say how a package is read.
type SourceOptions struct {
	// Stdin is read for the source "-".
	Stdin io.Reader
	// PlainHTTP speaks to the registry without TLS; one on loopback is always
	// spoken to that way.
	PlainHTTP bool
	// All takes the builds for other platforms too.
	All bool
	// Progress is told what is done; may be nil. A total of 0 is not known.
	Progress func(step string, done, total int64)

	limits *limits // nil: the standard ones
}

func (o *SourceOptions) tell(step string, done, total int64) {
	if o.Progress != nil {
		o.Progress(step, done, total)
	}
}

// Package is a bundle that was taken from its source into a folder of its own
// and compared with its manifest.
type Package struct {
	Directory string
	Manifest  *manifest.Manifest
	// Digest is that of manifest.yaml, and so the bundle's.
	Digest string
	// Source is where it came from, with a registry's digest.
	Source string
	// Image is the OCI manifest that signatures speak of.
	Image      []byte
	Signatures []Signature
	// unread is why signatures of a registry could not be read.
	unread error
	files  map[string]file
	work   string
}

// Close removes the folder.
func (p *Package) Close() error { return removeTree(p.work) }

// kinds of sources.
type sourceKind int

const (
	sourceFolder sourceKind = iota
	sourceTarball
	sourceRegistry
)

// SourceOf says what a source is: an absolute path, or an OCI reference.
func kindOf(source string) (sourceKind, string, error) {
	if source == Standard {
		return sourceTarball, source, nil
	}
	if ref, ok := strings.CutPrefix(source, "oci://"); ok {
		return sourceRegistry, ref, nil
	}
	info, err := os.Stat(source)
	switch {
	case err == nil:
		abs, err := filepath.Abs(source)
		if err != nil {
			return 0, "", err
		}
		if info.IsDir() {
			return sourceFolder, abs, nil
		}
		if !info.Mode().IsRegular() {
			return 0, "", refused("%s is neither a folder nor a file", source)
		}
		return sourceTarball, abs, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
		return 0, "", err
	}
	ref, parseErr := registry.ParseReference(source)
	host := ref.Registry
	if parseErr != nil || host != "localhost" && !strings.ContainsAny(host, ".:") || strings.HasPrefix(source, ".") {
		return 0, "", fmt.Errorf("%s: neither a folder nor a file, nor an OCI reference with its registry such as registry.example.com/plugins/quiet:1.0.0", source)
	}
	return sourceRegistry, source, nil
}

// Open takes a package from a source into a new folder below dir, and checks
// that it is whole and harmless. The caller closes it.
func Open(ctx context.Context, source, dir string, o SourceOptions) (_ *Package, err error) {
	kind, name, err := kindOf(source)
	if err != nil {
		return nil, fmt.Errorf("plugin package: %w", err)
	}
	work, err := os.MkdirTemp(dir, stagePrefix)
	if err != nil {
		return nil, fmt.Errorf("plugin package: %w", err)
	}
	p := &Package{Directory: filepath.Join(work, "bundle"), Source: name, work: work}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("plugin package %s: %w", source, err), removeTree(work))
		}
	}()
	l := standardLimits()
	if o.limits != nil {
		l = *o.limits
	}
	if err := os.Mkdir(p.Directory, 0o755); err != nil {
		return nil, err
	}
	s, err := newStage(p.Directory, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	switch kind {
	case sourceFolder:
		err = p.fromFolder(ctx, s, name, &o)
	case sourceTarball:
		err = p.fromTarball(ctx, s, name, &o)
	default:
		err = p.fromRegistry(ctx, s, name, &o)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// read parses the manifest of the package.
func (p *Package) read(data []byte) (err error) {
	p.Digest = digestOf(data)
	if p.Manifest, err = manifest.Parse(manifest.File, data); err != nil {
		// Of many faults the first is enough: nobody here can mend them.
		first, rest, more := strings.Cut(err.Error(), "\n")
		if more {
			first += fmt.Sprintf(" (and %d more faults)", 1+strings.Count(rest, "\n"))
		}
		return refused("%s", first)
	}
	if len(p.Manifest.Artifacts.All()) == 0 {
		return refused("its manifest pins no artefact; build the bundle and run pintle plugin seal on its folder")
	}
	return nil
}

// compare holds what came against what the manifest pins.
func (p *Package) compare(a manifest.Artifact, got string) error {
	if got != a.Digest {
		return fmt.Errorf("%w: %s has digest %s, its manifest wants %s: %w", ErrPackage, a.Path, got, a.Digest, ErrDigest)
	}
	return nil
}

// fromFolder copies what the manifest of a folder names.
func (p *Package) fromFolder(ctx context.Context, s *stage, dir string, o *SourceOptions) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	text, err := readEntry(root, manifest.File, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder has no %s; name the folder of a bundle", manifest.File)
	}
	if err != nil {
		return err
	}
	built, err := readEntry(root, sealed.File, sealed.MaxBytes)
	if err == nil {
		text, err = sealed.Join(text, built)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	if err := p.read(text); err != nil {
		return err
	}
	if _, err := s.add(manifest.File, strings.NewReader(string(text)), 0o644); err != nil {
		return err
	}
	list := needed(p.Manifest, manifest.Platform(), true)
	for i, a := range list {
		o.tell("read", int64(i), int64(len(list)))
		if err := p.copyEntry(ctx, s, root, a); err != nil {
			return err
		}
	}
	signatures, err := readEntry(root, signatureFile, maxSignatures*maxSignatureBytes)
	if err == nil {
		err = p.readSignatures(signatures)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	p.files = s.files
	p.Image, err = imageOf(p.Manifest, text, s.files)
	return err
}

func (p *Package) copyEntry(ctx context.Context, s *stage, root *os.Root, a manifest.Artifact) error {
	in, err := openRegular(root, a.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return refused("its manifest names %s, which is not in it", a.Path)
	}
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := s.add(a.Path, &counted{ctx: ctx, r: in}, 0o644)
	if err != nil {
		return err
	}
	return p.compare(a, f.digest)
}

// openRegular opens a file below root that is no link, pipe or device, neither
// itself nor by a folder on its way.
func openRegular(root *os.Root, name string) (*os.File, error) {
	for at := name; at != "."; at = path.Dir(at) {
		info, err := root.Lstat(at)
		if err != nil {
			return nil, err
		}
		if at == name && !info.Mode().IsRegular() || at != name && !info.IsDir() {
			return nil, refused("entry %q is %s; a package has files and folders only", at, modeWords(info.Mode()))
		}
	}
	// A pipe that took the file's place since does not hold this up.
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(refused("entry %q is no file any more", name), err, f.Close())
	}
	return f, nil
}

func modeWords(m fs.FileMode) string {
	switch {
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m.IsDir():
		return "a folder"
	}
	return "no file"
}

func readEntry(root *os.Root, name string, most int64) ([]byte, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = refused("%s is larger than %d bytes", name, most)
	}
	return data, err
}

// fromTarball stages a whole tarball and takes from it what the manifest names.
func (p *Package) fromTarball(ctx context.Context, s *stage, name string, o *SourceOptions) error {
	in := o.Stdin
	var size int64
	if name != Standard {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
		in = f
	}
	if in == nil {
		return errors.New("standard input is not there")
	}
	return p.fromTar(ctx, s, &counted{ctx: ctx, r: in, tell: func(n int64) { o.tell("read", n, size) }})
}

func (p *Package) fromTar(ctx context.Context, s *stage, in io.Reader) error {
	heap := filepath.Join(p.work, "unpacked")
	if err := os.Mkdir(heap, 0o755); err != nil {
		return err
	}
	all, err := newStage(heap, s.limits)
	if err != nil {
		return err
	}
	defer all.close()
	if err := unpack(ctx, all, in); err != nil {
		return err
	}
	prefix, err := prefixOf(all.files)
	if err != nil {
		return err
	}
	text, err := readEntry(all.root, path.Join(prefix, manifest.File), 1<<20)
	if err != nil {
		return err
	}
	if err := p.read(text); err != nil {
		return err
	}
	take := func(name string) error {
		from := filepath.Join(heap, filepath.FromSlash(path.Join(prefix, name)))
		to := filepath.Join(s.dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.Rename(from, to)
	}
	if err := take(manifest.File); err != nil {
		return err
	}
	for _, a := range needed(p.Manifest, "", true) {
		f, ok := all.files[path.Join(prefix, a.Path)]
		if !ok {
			return refused("its manifest names %s, which is not in it", a.Path)
		}
		if err := p.compare(a, f.digest); err != nil {
			return err
		}
		if err := take(a.Path); err != nil {
			return refused("entry %q: %w", a.Path, err)
		}
		s.files[a.Path] = f
	}
	if _, ok := all.files[path.Join(prefix, signatureFile)]; ok {
		data, err := readEntry(all.root, path.Join(prefix, signatureFile), maxSignatures*maxSignatureBytes)
		if err != nil {
			return err
		}
		if err := p.readSignatures(data); err != nil {
			return err
		}
	}
	p.files = s.files
	p.Image, err = imageOf(p.Manifest, text, s.files)
	return err
}

// prefixOf is the folder of a tarball in which the manifest lies: its root, or
// the only folder there.
func prefixOf(files map[string]file) (string, error) {
	if _, ok := files[manifest.File]; ok {
		return ".", nil
	}
	var found []string
	for name := range files {
		if dir, base := path.Split(name); base == manifest.File && strings.Count(dir, "/") == 1 {
			found = append(found, path.Clean(dir))
		}
	}
	if len(found) != 1 {
		return "", refused("it has no %s at its root", manifest.File)
	}
	return found[0], nil
}

// signed is the content of signatureFile.
type signed struct {
	Signatures []Signature `json:"signatures"`
}

func (p *Package) readSignatures(data []byte) error {
	var s signed
	if err := json.Unmarshal(data, &s); err != nil {
		return refused("%s: %w", signatureFile, err)
	}
	if len(s.Signatures) > maxSignatures {
		return refused("it has %d signatures; %d are looked at", len(s.Signatures), maxSignatures)
	}
	p.Signatures = s.Signatures
	return nil
}

// removeTree removes a folder of which parts may be read-only.
func removeTree(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(dir))
}
