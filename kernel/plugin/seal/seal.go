package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/sealed"
	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/kernel/yamltree"
	"pintle.dev/pintle/sdk"
)

// Seal pins the artefacts of the bundle in a folder: it hashes NAME.wasm, NAME
// and NAME-OS-ARCH (or the paths that the manifest names) and the files of
// artifacts.files, writes their digests beside the manifest (or into it, where it has
// some) and compiles the module, so that one that cannot run is told now. It is part
// of a build, never of a start.
func Seal(ctx context.Context, dir string) error {
	f, err := openSeal(dir)
	if err != nil {
		return err
	}
	old, name := f.artifacts, f.name
	var pins manifest.Artifacts
	if pins.WASM, err = sealArtifact(dir, old.WASM, name+".wasm"); err != nil {
		return err
	}
	if pins.Process, err = sealArtifact(dir, old.Process, name); err != nil {
		return err
	}
	if pins.Platforms, err = sealPlatforms(dir, name, old.Platforms); err != nil {
		return err
	}
	for _, file := range old.Files {
		a, err := sealArtifact(dir, &file, "")
		if err != nil {
			return err
		}
		pins.Files = append(pins.Files, *a)
	}
	if pins.WASM == nil && pins.Process == nil && len(pins.Platforms) == 0 {
		return fmt.Errorf("bundle folder %s: neither %s.wasm nor %s is there; build the bundle first", dir, name, name)
	}
	if err := f.write(&pins); err != nil {
		return err
	}
	return wasm.Compile(ctx, dir, nil, checkReviews)
}

// sealing is the manifest of a folder while it is sealed.
type sealing struct {
	dir, name string
	text      []byte             // of the manifest alone
	doc       yaml.Node          // of it
	artifacts manifest.Artifacts // that it names, pinned or not
	pinned    bool               // it names digests itself
}

func openSeal(dir string) (*sealing, error) {
	f := &sealing{dir: dir}
	path := filepath.Join(dir, manifest.File)
	var err error
	if f.text, err = os.ReadFile(path); err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w; name a folder with a %s", dir, err, manifest.File)
	}
	if err := yaml.Unmarshal(f.text, &f.doc); err != nil {
		return nil, manifest.ManifestError(path, err)
	}
	if len(f.doc.Content) == 0 || f.doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:1: want a manifest", path)
	}
	top := f.doc.Content[0]
	if n := yamltree.Child(top, "artifacts"); n != nil {
		f.pinned = sealed.Pinned(n)
		if err := n.Decode(&f.artifacts); err != nil {
			return nil, manifest.ManifestError(path, err)
		}
	}
	if n := yamltree.Child(top, "name"); n != nil {
		f.name = n.Value
	}
	return f, nil
}

// write pins artefacts: in the file of the builds, or in a manifest that has digests.
func (f *sealing) write(pins *manifest.Artifacts) error {
	fault := func(err error) error { return fmt.Errorf("bundle folder %s: %w", f.dir, err) }
	var value yaml.Node
	if err := value.Encode(pins); err != nil {
		return fault(err)
	}
	path := filepath.Join(f.dir, manifest.File)
	if !f.pinned {
		built, err := sealed.Built(&value)
		if err != nil {
			return fault(err)
		}
		whole, err := sealed.Join(f.text, built)
		if err != nil {
			return fault(err)
		}
		if _, err := manifest.Parse(path, whole); err != nil {
			return err
		}
		return f.replace(sealed.File, built)
	}
	sealed.With(f.doc.Content[0], &value)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&f.doc); err != nil {
		return fault(err)
	}
	if _, err := manifest.Parse(path, out.Bytes()); err != nil {
		return err
	}
	return f.replace(manifest.File, out.Bytes())
}

// replace writes a file of the folder, unless it is so.
func (f *sealing) replace(name string, data []byte) error {
	path := filepath.Join(f.dir, name)
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	if err := writeWhole(path, data, 0o644); err != nil {
		return fmt.Errorf("bundle folder %s: %w", f.dir, err)
	}
	return nil
}

// Unseal removes the builds of a bundle for some transports, and their pins: they are
// of a source that is no more.
func Unseal(dir string, transports ...string) error {
	f, err := openSeal(dir)
	if err != nil {
		return err
	}
	if data, err := sealed.Read(dir); err == nil && !f.pinned {
		// What was built is in the other file.
		var m struct {
			Artifacts manifest.Artifacts `yaml:"artifacts"`
		}
		if err := yaml.Unmarshal(data, &m); err != nil {
			return manifest.ManifestError(filepath.Join(dir, manifest.File), err)
		}
		f.artifacts = m.Artifacts
	}
	changed := false
	for _, transport := range transports {
		a, file := &f.artifacts.Process, f.name
		if transport == manifest.TransportWASM {
			a, file = &f.artifacts.WASM, f.name+".wasm"
		}
		if *a != nil && (*a).Path != "" {
			file = (*a).Path
		}
		if file == "" || !filepath.IsLocal(file) {
			return fmt.Errorf("bundle folder %s: artefact %q lies outside the folder", dir, file)
		}
		if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bundle folder %s: %w", dir, err)
		}
		changed = changed || *a != nil
		*a = nil
	}
	if !changed {
		return nil
	}
	if !f.pinned {
		// The seal that follows writes the file anew.
		if err := os.Remove(filepath.Join(dir, sealed.File)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bundle folder %s: %w", dir, err)
		}
		return nil
	}
	var value yaml.Node
	if err := value.Encode(f.artifacts); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	sealed.With(f.doc.Content[0], &value)
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&f.doc); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	return f.replace(manifest.File, out.Bytes())
}

func sealArtifact(dir string, a *manifest.Artifact, byDefault string) (*manifest.Artifact, error) {
	path := byDefault
	if a != nil && a.Path != "" {
		path = a.Path
	}
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("bundle folder %s: artefact %q lies outside the folder", dir, path)
	}
	digest, err := manifest.FileDigest(filepath.Join(dir, path))
	if errors.Is(err, fs.ErrNotExist) && a == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	return &manifest.Artifact{Path: path, Digest: digest}, nil
}

// What a module has for its description when it is sealed.
const (
	sealCallTimeout  = 100 * time.Millisecond
	sealStartTimeout = 10 * time.Second
)

// systems are those whose builds Seal finds by their names.
var systems = map[string]bool{"linux": true, "darwin": true, "freebsd": true}

// sealPlatforms pins the builds for platforms: those that the manifest names,
// and NAME-OS-ARCH of the folder.
func sealPlatforms(dir, name string, old map[string]*manifest.Artifact) (map[string]*manifest.Artifact, error) {
	wanted := maps.Clone(old)
	if wanted == nil {
		wanted = map[string]*manifest.Artifact{}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), name+"-")
		system, arch, both := strings.Cut(rest, "-")
		platform := system + "/" + arch
		if ok && both && systems[system] && e.Type().IsRegular() && manifest.PlatformForm.MatchString(platform) && wanted[platform] == nil {
			wanted[platform] = &manifest.Artifact{Path: e.Name()}
		}
	}
	var sealed map[string]*manifest.Artifact
	for platform, a := range wanted {
		if a == nil {
			continue
		}
		s, err := sealArtifact(dir, a, "")
		if err != nil {
			return nil, err
		}
		if sealed == nil {
			sealed = map[string]*manifest.Artifact{}
		}
		sealed[platform] = s
	}
	return sealed, nil
}

// checkReviews compares what the admission plugins of a module review with what its
// manifest says, which is what operators are shown.
func checkReviews(m *manifest.Manifest, module *wasm.Module) error {
	if !slices.ContainsFunc(m.Plugins, func(e manifest.Entry) bool { return e.Kind == sdk.KindAdmission }) {
		return nil
	}
	g, err := module.Instantiate(sealCallTimeout, sealStartTimeout, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("plugin bundle %s: its module cannot be started: %w", m.Name, err)
	}
	return errors.Join(m.Provides(g.Describe()), g.Close(context.Background(), 0))
}

// writeWhole replaces a file in one step.
func writeWhole(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
