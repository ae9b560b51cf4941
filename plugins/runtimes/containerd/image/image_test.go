package image

import (
	"archive/tar"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestBuild(t *testing.T) {
	files := []File{{Path: "/usr/bin/b", Data: []byte("b"), Mode: 0o755}, {Path: "/a", Data: []byte("aa"), Mode: 0o644}}
	img, err := Build(files, Config{Entrypoint: []string{"/usr/bin/b"}, User: "65534"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Build(files, Config{Entrypoint: []string{"/usr/bin/b"}, User: "65534"})
	if err != nil {
		t.Fatal(err)
	}
	d1, _ := img.Digest()
	d2, _ := again.Digest()
	if d1 != d2 {
		t.Errorf("equal input, digests %s and %s", d1, d2)
	}
	archive := filepath.Join(t.TempDir(), "i.tar")
	if err := WriteArchive(archive, "docker.io/pintle/x:1", img); err != nil {
		t.Fatal(err)
	}
	tag, _ := name.NewTag("docker.io/pintle/x:1")
	read, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := read.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	rc, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	var names []string
	for tr := tar.NewReader(rc); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
	if want := []string{"tmp/", "a", "usr/", "usr/bin/", "usr/bin/b"}; !slices.Equal(names, want) {
		t.Errorf("layer holds %v, want %v", names, want)
	}
}

func TestBuildRefusesBadPaths(t *testing.T) {
	for _, p := range []string{"a", "/a/../b", ""} {
		if _, err := Build([]File{{Path: p}}, Config{}); err == nil || !strings.Contains(err.Error(), "clean absolute path") {
			t.Errorf("path %q: %v", p, err)
		}
	}
}
