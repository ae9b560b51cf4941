package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// echoTags are the names that the suite's manifests have for its backend.
var echoTags = []string{"v1.5.1", "v1.6.0-dev.2", "v1.6.0-dev.3"}

const echoImage = "registry.k8s.io/gateway-api/echo-basic:"

// coreDNSImage is one that waits for its configuration beside the backends.
const coreDNSImage = "registry.k8s.io/coredns/coredns:v1.12.2"

// writeImages fills a folder of images: those of the backends, and the runtime's own.
func writeImages(bin, echo, dir string) error {
	backend, err := imageOf(echo, "echo-basic")
	if err != nil {
		return err
	}
	dns, err := imageOf(filepath.Join(bin, "coredns"), "coredns")
	if err != nil {
		return err
	}
	refs := map[name.Reference]v1.Image{}
	add := func(tag string, img v1.Image) error {
		ref, err := name.NewTag(tag)
		refs[ref] = img
		return err
	}
	for _, tag := range echoTags {
		if err := add(echoImage+tag, backend); err != nil {
			return err
		}
	}
	if err := add(coreDNSImage, dns); err != nil {
		return err
	}
	if err := tarball.MultiRefWriteToFile(filepath.Join(dir, "suite.tar"), refs); err != nil {
		return err
	}
	pause, err := os.ReadFile(filepath.Join(bin, "images", "pause.tar"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "pause.tar"), pause, 0o644)
}

// imageOf is an image of one program, which it starts.
func imageOf(program, as string) (v1.Image, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: as, Mode: 0o755, Size: int64(len(data)), Format: tar.FormatPAX}); err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	if img, err = mutate.Config(img, v1.Config{Entrypoint: []string{"/" + as}, WorkingDir: "/"}); err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	return mutate.ConfigFile(img, file)
}
