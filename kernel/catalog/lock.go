package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// The identity of the lock file's format.
const (
	lockVersion = "kernel.pintle.dev/v1alpha1"
	lockKind    = "PluginLock"

	maxLockBytes = 4 << 20
	// keptVersions is how many former versions a rollback may go to.
	keptVersions = 5

	lockHead = `# The plugin bundles that are installed, pinned by digest. It is written by
# pintle plugin install and remove, and read by the kernel, which loads what
# stands here. Keep it with the configuration: on another machine, or for
# another platform, "pintle plugin install" without a source installs the same.`
)

// Lock is the content of a lock file.
type Lock struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Bundles    []Locked `yaml:"bundles"`

	doc *yaml.Node // as it was read, for its comments
}

// Locked is one bundle of a lock.
type Locked struct {
	Name string `yaml:"name" json:"name"`
	// Version is the one in use.
	Version `yaml:",inline" json:",inline"`
	// Beside are versions that are installed and not in use: candidates.
	Beside []Version `yaml:"beside,omitempty" json:"beside,omitempty"`
	// Previous are versions that were in use, the last one first.
	Previous []Version `yaml:"previous,omitempty" json:"previous,omitempty"`
}

// Version is one build of a bundle, pinned.
type Version struct {
	Version string `yaml:"version" json:"version"`
	// Digest is that of manifest.yaml, which names all others.
	Digest string `yaml:"digest" json:"digest"`
	// Source is where it came from; a registry's with its digest.
	Source string `yaml:"source,omitempty" json:"source,omitempty"`
	// Reference is what was asked for of a registry, with its tag.
	Reference string `yaml:"reference,omitempty" json:"reference,omitempty"`
	// Replaces: an operator said that it takes the place of the bundle of that name
	// in plugins.directories.
	Replaces bool `yaml:"replaces,omitempty" json:"replaces,omitempty"`
	// SignedBy is the ID of the key whose signature counted.
	SignedBy string `yaml:"signedBy,omitempty" json:"signedBy,omitempty"`
	// Artifacts are the digests of everything that the package offers, for all
	// platforms: wasm, process, process/OS/ARCH and file/PATH.
	Artifacts map[string]string `yaml:"artifacts" json:"artifacts"`
}

// versionOf is what a lock says of a bundle.
func versionOf(m *manifest.Manifest, digest, source string) Version {
	v := Version{Version: m.Version, Digest: digest, Source: source, Artifacts: map[string]string{}}
	if a := m.Artifacts.WASM; a != nil {
		v.Artifacts["wasm"] = a.Digest
	}
	if a := m.Artifacts.Process; a != nil {
		v.Artifacts["process"] = a.Digest
	}
	for platform, a := range m.Artifacts.Platforms {
		v.Artifacts["process/"+platform] = a.Digest
	}
	for _, a := range m.Artifacts.Files {
		v.Artifacts["file/"+a.Path] = a.Digest
	}
	return v
}

// has reports whether a digest is the bundle's or that of one of its artefacts.
func (v *Version) has(digest string) bool {
	if v.Digest == digest {
		return true
	}
	for _, d := range v.Artifacts {
		if d == digest {
			return true
		}
	}
	return false
}

// versions are all of them, the one in use first.
func (l *Locked) versions() []Version {
	return slices.Concat([]Version{l.Version}, l.Beside, l.Previous)
}

// Bundle returns the bundle of a name, or nil.
func (l *Lock) Bundle(name string) *Locked {
	for i := range l.Bundles {
		if l.Bundles[i].Name == name {
			return &l.Bundles[i]
		}
	}
	return nil
}

// Names are those of the bundles.
func (l *Lock) Names() []string {
	var names []string
	for i := range l.Bundles {
		names = append(names, l.Bundles[i].Name)
	}
	return names
}

// Same reports whether two locks pin the same.
func (l *Lock) Same(other *Lock) bool {
	return len(l.Bundles) == len(other.Bundles) && (len(l.Bundles) == 0 || reflect.DeepEqual(l.Bundles, other.Bundles))
}

var (
	lockName   = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)
	lockDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// ReadLock reads a lock file; one that is not there locks nothing.
func ReadLock(path string) (*Lock, error) {
	data, err := readBounded(path, maxLockBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{APIVersion: lockVersion, Kind: lockKind}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("plugin lock: %w", err)
	}
	return parseLock(path, data)
}

func parseLock(path string, data []byte) (*Lock, error) {
	const advice = "; correct it, or remove the file and install its bundles again"
	l := &Lock{doc: &yaml.Node{}}
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(l.doc); err != nil {
		if errors.Is(err, io.EOF) {
			return &Lock{APIVersion: lockVersion, Kind: lockKind}, nil
		}
		return nil, fmt.Errorf("plugin lock %s: %w%s", path, err, advice)
	}
	if aliased(l.doc) {
		return nil, fmt.Errorf("plugin lock %s: YAML aliases are not supported%s", path, advice)
	}
	strict := yaml.NewDecoder(bytes.NewReader(data))
	strict.KnownFields(true)
	if err := strict.Decode(l); err != nil {
		return nil, fmt.Errorf("plugin lock %s: %w%s", path, err, advice)
	}
	fault := func(format string, args ...any) error {
		return fmt.Errorf("plugin lock %s: %s%s", path, fmt.Sprintf(format, args...), advice)
	}
	if l.APIVersion != lockVersion || l.Kind != lockKind {
		return nil, fault("it is %q %q; want %s %s", l.APIVersion, l.Kind, lockVersion, lockKind)
	}
	seen := map[string]bool{}
	for i := range l.Bundles {
		b := &l.Bundles[i]
		if !lockName.MatchString(b.Name) {
			return nil, fault("%q is no name of a bundle", b.Name)
		}
		if seen[b.Name] {
			return nil, fault("bundle %s is there twice", b.Name)
		}
		seen[b.Name] = true
		for _, v := range b.versions() {
			if v.Version == "" || !lockDigest.MatchString(v.Digest) || len(v.Artifacts) == 0 {
				return nil, fault("bundle %s: a version lacks its version, digest or artifacts", b.Name)
			}
			for what, digest := range v.Artifacts {
				if !lockDigest.MatchString(digest) {
					return nil, fault("bundle %s: %s: %q is no digest", b.Name, what, digest)
				}
			}
		}
	}
	return l, nil
}

func aliased(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, aliased)
}

// put makes a version the one in use, or installs it beside.
func (l *Lock) put(name string, v Version, beside bool) {
	b := l.Bundle(name)
	if b == nil {
		l.Bundles = append(l.Bundles, Locked{Name: name, Version: v})
		return
	}
	same := func(x Version) bool { return x.Digest == v.Digest }
	if same(b.Version) {
		b.Version = v
		return
	}
	b.Beside = slices.DeleteFunc(b.Beside, same)
	if beside {
		b.Beside = append(b.Beside, v)
		return
	}
	b.Previous = append([]Version{b.Version}, slices.DeleteFunc(b.Previous, same)...)
	b.Previous = b.Previous[:min(len(b.Previous), keptVersions)]
	b.Version = v
}

// text is the file of a lock: bundles by name, and the comments that the
// former file had at what is still there.
func (l *Lock) text() ([]byte, error) {
	slices.SortFunc(l.Bundles, func(a, b Locked) int { return strings.Compare(a.Name, b.Name) })
	if l.Bundles == nil {
		l.Bundles = []Locked{}
	}
	var now yaml.Node
	if err := now.Encode(l); err != nil {
		return nil, err
	}
	if l.doc != nil && len(l.doc.Content) > 0 {
		comments(l.doc.Content[0], &now)
	} else {
		now.HeadComment = lockHead
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{&now}}
	if l.doc != nil {
		doc.HeadComment, doc.FootComment = l.doc.HeadComment, l.doc.FootComment
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// comments carries the comments of a tree over to a newer one: of the same key,
// or of the bundle or version of the same name.
func comments(from, to *yaml.Node) {
	to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	if from.Kind != to.Kind {
		return
	}
	switch to.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(to.Content); i += 2 {
			for j := 0; j+1 < len(from.Content); j += 2 {
				if from.Content[j].Value == to.Content[i].Value {
					comments(from.Content[j], to.Content[i])
					comments(from.Content[j+1], to.Content[i+1])
				}
			}
		}
	case yaml.SequenceNode:
		for _, x := range to.Content {
			for _, y := range from.Content {
				if identity(x) != "" && identity(x) == identity(y) {
					comments(y, x)
				}
			}
		}
	}
}

// identity is what a bundle or version of a list is known by.
func identity(n *yaml.Node) string {
	for _, key := range []string{"name", "digest"} {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == key {
				return n.Content[i+1].Value
			}
		}
	}
	return ""
}

// changeLock reads, changes and writes a lock file while no other command does.
func changeLock(path string, change func(*Lock) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("plugin lock: %w", err)
	}
	unlock, err := flock(dir)
	if err != nil {
		return fmt.Errorf("plugin lock %s: %w", path, err)
	}
	defer unlock()
	l, err := ReadLock(path)
	if err != nil {
		return err
	}
	if err := change(l); err != nil {
		return err
	}
	data, err := l.text()
	if err != nil {
		return fmt.Errorf("plugin lock %s: %w", path, err)
	}
	if err := writeWhole(path, data, 0o644); err != nil {
		return fmt.Errorf("plugin lock: %w", err)
	}
	return nil
}

// flock takes a folder for one process at a time.
func flock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// writeWhole replaces a file in one step that outlives a loss of power.
func writeWhole(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
