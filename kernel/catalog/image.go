package catalog

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Media types of a bundle in a registry.
const (
	typeArtifact = "application/vnd.pintle.plugin.v1alpha1"
	typeManifest = "application/vnd.pintle.plugin.manifest.v1alpha1+yaml"
	typeWASM     = "application/wasm"
	typeProcess  = "application/vnd.pintle.plugin.process.v1alpha1"
	typeFile     = "application/vnd.pintle.plugin.file.v1alpha1"
)

// Annotations of the OCI manifest and its layers.
const (
	noteDigest   = "dev.pintle.plugin.digest"   // of manifest.yaml
	notePlatform = "dev.pintle.plugin.platform" // os/arch of a process build
)

const maxImageBytes = 4 << 20

// imageOf is the OCI manifest of a package with all its files: the same bytes
// for the same package, wherever it lies.
func imageOf(m *manifest.Manifest, text []byte, files map[string]file) ([]byte, error) {
	platforms := map[string][]string{}
	for platform, a := range m.Artifacts.Platforms {
		platforms[a.Path] = append(platforms[a.Path], platform)
	}
	image := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: typeArtifact, Config: ocispec.DescriptorEmptyJSON,
		Layers: []ocispec.Descriptor{{
			MediaType: typeManifest, Digest: digest.FromBytes(text), Size: int64(len(text)),
			Annotations: map[string]string{ocispec.AnnotationTitle: manifest.File},
		}},
		Annotations: notesOf(m, text),
	}
	for _, a := range needed(m, "", true) {
		f, ok := files[a.Path]
		if !ok {
			return nil, refused("its manifest names %s, which is not in it", a.Path)
		}
		layer := ocispec.Descriptor{
			MediaType: typeFile, Digest: digest.Digest(f.digest), Size: f.size,
			Annotations: map[string]string{ocispec.AnnotationTitle: a.Path},
		}
		switch {
		case m.Artifacts.WASM != nil && m.Artifacts.WASM.Path == a.Path:
			layer.MediaType = typeWASM
		case executable(m, a.Path):
			layer.MediaType = typeProcess
		}
		if of := platforms[a.Path]; len(of) == 1 {
			layer.Annotations[notePlatform] = of[0]
		}
		image.Layers = append(image.Layers, layer)
	}
	return json.Marshal(image)
}

func notesOf(m *manifest.Manifest, text []byte) map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle: m.Name, ocispec.AnnotationVersion: m.Version, noteDigest: digestOf(text),
	}
}

// plainImageOf is an image that every registry takes: one layer, which is the
// tarball of the package.
func plainImageOf(m *manifest.Manifest, text []byte, tarball, config ocispec.Descriptor) ([]byte, error) {
	return json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: config, Layers: []ocispec.Descriptor{tarball}, Annotations: notesOf(m, text),
	})
}

// parseImage reads an OCI manifest of a bundle.
func parseImage(data []byte) (*ocispec.Manifest, error) {
	if len(data) > maxImageBytes {
		return nil, refused("its OCI manifest is larger than %d bytes", maxImageBytes)
	}
	image := &ocispec.Manifest{}
	if err := json.Unmarshal(data, image); err != nil {
		return nil, refused("its OCI manifest: %w", err)
	}
	if image.MediaType != "" && image.MediaType != ocispec.MediaTypeImageManifest {
		return nil, refused("it is of type %s; want one OCI manifest (%s)", image.MediaType, ocispec.MediaTypeImageManifest)
	}
	if len(image.Layers) == 0 || len(image.Layers) > maxEntries {
		return nil, refused("its OCI manifest has %d layers", len(image.Layers))
	}
	return image, nil
}

// namedBundle is the digest of manifest.yaml that an OCI manifest speaks of,
// which is what a signature over it signs.
func namedBundle(data []byte) (string, error) {
	image, err := parseImage(data)
	if err != nil {
		return "", err
	}
	if d := image.Annotations[noteDigest]; d != "" {
		return d, nil
	}
	for _, l := range image.Layers {
		if l.Annotations[ocispec.AnnotationTitle] == manifest.File {
			return l.Digest.String(), nil
		}
	}
	return "", refused("its OCI manifest names no %s: neither annotation %s nor a layer of that title", manifest.File, noteDigest)
}

// isTarball reports whether a layer is a tarball, compressed or not.
func isTarball(mediaType string) bool {
	return strings.HasSuffix(mediaType, ".tar") || strings.HasSuffix(mediaType, ".tar+gzip") || strings.HasSuffix(mediaType, ".tar.gzip")
}

// words of a bundle for messages: its name and version.
func words(m *manifest.Manifest) string { return fmt.Sprintf("plugin bundle %s %s", m.Name, m.Version) }
