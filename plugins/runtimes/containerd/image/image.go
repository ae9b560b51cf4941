package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// File is one regular file of an image.
type File struct {
	Path string // absolute, in the image
	Data []byte
	Mode int64 // permission bits
}

// Config is what an image runs when the pod does not say otherwise.
type Config struct {
	Entrypoint []string
	Cmd        []string
	Env        []string // NAME=value
	WorkingDir string
	User       string // "", uid or uid:gid
	StopSignal string
}

// epoch is the time of every file, so that equal input gives an equal digest.
var epoch = time.Unix(0, 0).UTC()

// Build returns a single-layer Linux image of this machine's architecture.
// Parent folders and a world-writable /tmp are added.
func Build(files []File, cfg Config) (v1.Image, error) {
	var buf bytes.Buffer
	if err := writeLayer(&buf, files); err != nil {
		return nil, fmt.Errorf("build image layer: %w", err)
	}
	data := buf.Bytes()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("build image layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", runtime.GOARCH, v1.Time{Time: epoch}
	file.Config = v1.Config{
		Entrypoint: cfg.Entrypoint, Cmd: cfg.Cmd, Env: cfg.Env,
		WorkingDir: cfg.WorkingDir, User: cfg.User, StopSignal: cfg.StopSignal,
	}
	img, err = mutate.ConfigFile(img, file)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	return img, nil
}

func writeLayer(w io.Writer, files []File) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{"/": true, ".": true}
	mkdir := func(dir string, mode int64) error {
		made[dir] = true
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: mode, ModTime: epoch})
	}
	if err := mkdir("/tmp", 0o1777); err != nil {
		return err
	}
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return bytes.Compare([]byte(a.Path), []byte(b.Path)) })
	for _, f := range files {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
			return fmt.Errorf("file %q: want a clean absolute path", f.Path)
		}
		var parents []string
		for dir := path.Dir(f.Path); !made[dir]; dir = path.Dir(dir) {
			parents = append(parents, dir)
		}
		for _, dir := range slices.Backward(parents) {
			if err := mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path[1:], Mode: f.Mode, Size: int64(len(f.Data)), ModTime: epoch}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(f.Data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// WriteArchive writes an image under a reference (docker.io/pintle/pause:1) to
// a file that container runtimes can import. The file appears whole or not at all.
func WriteArchive(file, reference string, img v1.Image) error {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("write image archive %s: %w", file, err)
	}
	tmp := file + ".tmp"
	if err := tarball.WriteToFile(tmp, tag, img); err != nil {
		return fmt.Errorf("write image archive %s: %w", file, err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return fmt.Errorf("write image archive %s: %w", file, err)
	}
	return nil
}
