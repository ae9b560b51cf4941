package plugin

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
	"runtime"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/experimental"
	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/plugin/modulecache"
	"pintle.dev/pintle/kernel/yamltree"
	"pintle.dev/pintle/sdk"
)

// Seal pins the artefacts of the bundle in a folder: it hashes NAME.wasm, NAME
// and NAME-OS-ARCH (or the paths that the manifest names) and the files of
// artifacts.files, writes their digests into the manifest and compiles the
// module, so that one that cannot run is told now. It is part of a build, never of
// a start.
func Seal(ctx context.Context, dir string) error {
	path := filepath.Join(dir, ManifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("bundle folder %s: %w; name a folder with a %s", dir, err, ManifestFile)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return manifestError(path, err)
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%s:1: want a manifest", path)
	}
	top := root.Content[0]
	var old Artifacts
	if n := yamltree.Child(top, "artifacts"); n != nil {
		if err := n.Decode(&old); err != nil {
			return manifestError(path, err)
		}
	}
	name := ""
	if n := yamltree.Child(top, "name"); n != nil {
		name = n.Value
	}
	var sealed Artifacts
	if sealed.WASM, err = sealArtifact(dir, old.WASM, name+".wasm"); err != nil {
		return err
	}
	if sealed.Process, err = sealArtifact(dir, old.Process, name); err != nil {
		return err
	}
	if sealed.Platforms, err = sealPlatforms(dir, name, old.Platforms); err != nil {
		return err
	}
	for _, f := range old.Files {
		a, err := sealArtifact(dir, &f, "")
		if err != nil {
			return err
		}
		sealed.Files = append(sealed.Files, *a)
	}
	if sealed.WASM == nil && sealed.Process == nil && len(sealed.Platforms) == 0 {
		return fmt.Errorf("bundle folder %s: neither %s.wasm nor %s is there; build the bundle first", dir, name, name)
	}
	var value yaml.Node
	if err := value.Encode(sealed); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	if n := yamltree.Child(top, "artifacts"); n != nil {
		*n = value
	} else {
		top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "artifacts"}, &value)
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	if _, err := ParseManifest(path, out.Bytes()); err != nil {
		return err
	}
	if !bytes.Equal(data, out.Bytes()) {
		if err := writeWhole(path, out.Bytes(), 0o644); err != nil {
			return fmt.Errorf("bundle folder %s: %w", dir, err)
		}
	}
	return Compile(ctx, dir, nil)
}

// Unseal removes the builds of a bundle for some transports, and their pins: they are
// of a source that is no more.
func Unseal(dir string, transports ...string) error {
	path := filepath.Join(dir, ManifestFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return manifestError(path, err)
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return fmt.Errorf("%s:1: want a manifest", path)
	}
	artifacts := yamltree.Child(root.Content[0], "artifacts")
	name := yamltree.Child(root.Content[0], "name")
	changed := false
	for _, transport := range transports {
		file := ""
		if name != nil {
			if file = name.Value; transport == TransportWASM {
				file += ".wasm"
			}
		}
		for i := 0; artifacts != nil && i+1 < len(artifacts.Content); i += 2 {
			if artifacts.Content[i].Value != transport {
				continue
			}
			if n := yamltree.Child(artifacts.Content[i+1], "path"); n != nil && n.Value != "" {
				file = n.Value
			}
			artifacts.Content = slices.Delete(artifacts.Content, i, i+2)
			changed = true
			break
		}
		if file == "" || !filepath.IsLocal(file) {
			return fmt.Errorf("bundle folder %s: artefact %q lies outside the folder", dir, file)
		}
		if err := os.Remove(filepath.Join(dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("bundle folder %s: %w", dir, err)
		}
	}
	if !changed {
		return nil
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(&root); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	if err := writeWhole(path, out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	return nil
}

func sealArtifact(dir string, a *Artifact, byDefault string) (*Artifact, error) {
	path := byDefault
	if a != nil && a.Path != "" {
		path = a.Path
	}
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("bundle folder %s: artefact %q lies outside the folder", dir, path)
	}
	digest, err := FileDigest(filepath.Join(dir, path))
	if errors.Is(err, fs.ErrNotExist) && a == nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	return &Artifact{Path: path, Digest: digest}, nil
}

// systems are those whose builds Seal finds by their names.
var systems = map[string]bool{"linux": true, "darwin": true, "freebsd": true}

// sealPlatforms pins the builds for platforms: those that the manifest names,
// and NAME-OS-ARCH of the folder.
func sealPlatforms(dir, name string, old map[string]*Artifact) (map[string]*Artifact, error) {
	wanted := maps.Clone(old)
	if wanted == nil {
		wanted = map[string]*Artifact{}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("bundle folder %s: %w", dir, err)
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), name+"-")
		system, arch, both := strings.Cut(rest, "-")
		platform := system + "/" + arch
		if ok && both && systems[system] && e.Type().IsRegular() && platformForm.MatchString(platform) && wanted[platform] == nil {
			wanted[platform] = &Artifact{Path: e.Name()}
		}
	}
	var sealed map[string]*Artifact
	for platform, a := range wanted {
		if a == nil {
			continue
		}
		s, err := sealArtifact(dir, a, "")
		if err != nil {
			return nil, err
		}
		if sealed == nil {
			sealed = map[string]*Artifact{}
		}
		sealed[platform] = s
	}
	return sealed, nil
}

// Compile compiles the WASM module of a sealed bundle into a cache, so that starts
// only map it. A bundle without a module is left alone.
func Compile(ctx context.Context, dir string, cache *modulecache.Cache) error {
	m, err := ReadManifest(filepath.Join(dir, ManifestFile))
	if err != nil {
		return err
	}
	if m.Artifacts.WASM == nil {
		return nil
	}
	b := &Bundle{Directory: dir, Manifest: m}
	// Who compiles waits for nothing else.
	ctx = experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0))
	module, err := loadModule(ctx, b, m.Artifacts.WASM, m.Artifacts.WASM.Digest, cache, defaultMemoryLimit)
	if err != nil {
		return err
	}
	return errors.Join(checkReviews(ctx, m, module), module.close(ctx))
}

// checkReviews compares what the admission plugins of a module review with what
// its manifest says, which is what operators are shown.
func checkReviews(ctx context.Context, m *Manifest, module *module) error {
	if !slices.ContainsFunc(m.Plugins, func(e Entry) bool { return e.Kind == sdk.KindAdmission }) {
		return nil
	}
	g, err := module.instantiate(defaultCallTimeout, defaultStartTimeout, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("what the module reviews: %w", err)
	}
	var faults []error
	for i := range m.Plugins {
		e := &m.Plugins[i]
		for _, d := range g.describe() {
			if d.GetName() != e.Name {
				continue
			}
			if fault := e.reviewsMore(d); fault != "" {
				faults = append(faults, fmt.Errorf("plugin bundle %s: %s", m.Name, fault))
			}
		}
	}
	return errors.Join(errors.Join(faults...), g.close(ctx, 0))
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
