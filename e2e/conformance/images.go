package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// testImages is where the suite takes its images from. Their names and tags are those of
// test/utils/image/manifest.go, their entrypoints, users and files those of
// test/images/*/Dockerfile, with Debian in the place of Alpine.
const (
	imageRegistry = "registry.k8s.io"
	testImages    = imageRegistry + "/e2e-test-images/"
)

// image is one that the suite uses.
type image struct {
	tags   []string
	layers []string // folders, the lowest first
	config v1.Config
}

// images are those of the conformance tests, on a layer of the system that agnhost runs
// on: the suite has more.
func images(system string) []image {
	ports := map[string]struct{}{}
	for _, p := range []string{"80", "8080", "8081", "9376", "5000"} {
		ports[p+"/tcp"] = struct{}{}
	}
	agnhost := func(version string) image {
		return image{[]string{testImages + "agnhost:" + version}, []string{system, "agnhost"},
			v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, ExposedPorts: ports, Labels: map[string]string{"version": version}}}
	}
	nginx := func(tag, version string) image {
		return image{[]string{testImages + "nginx:" + tag}, []string{"web"},
			v1.Config{Cmd: []string{"nginx", "-g", "daemon off;"}, ExposedPorts: map[string]struct{}{"80/tcp": {}}, StopSignal: "SIGQUIT", Labels: map[string]string{"version": version}}}
	}
	pet := func(name string) image {
		return image{[]string{testImages + name + ":1.8"}, []string{system, "agnhost", name},
			v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}}}
	}
	return []image{
		agnhost("2.63.0"), agnhost("2.55"), pet("kitten"), pet("nautilus"), nginx("1.15-4", "1.15"), nginx("1.27-0", "1.27"),
		{[]string{testImages + "busybox:1.37.0-1"}, []string{"small"}, v1.Config{Cmd: []string{"sh"}}},
		{[]string{testImages + "nonroot:1.5"}, []string{"small"}, v1.Config{Cmd: []string{"sh"}, User: "1234"}},
		{[]string{testImages + "nonewprivs:1.4"}, []string{"small", "nonewprivs"}, v1.Config{Cmd: []string{"nnp"}}},
		{[]string{testImages + "ipc-utils:1.4", testImages + "glibc-dns-testing:2.0.0"}, []string{system}, v1.Config{Cmd: []string{"/bin/sh"}}},
		{[]string{testImages + "sample-apiserver:1.29.2"}, []string{"small", "sample-apiserver"}, v1.Config{Entrypoint: []string{"/sample-apiserver"}}},
		{[]string{imageRegistry + "/etcd:3.6.8-0"}, []string{"small", "etcd"}, v1.Config{Cmd: []string{"/usr/local/bin/etcd"}}},
		{[]string{imageRegistry + "/pause:3.10.2"}, []string{"pause"}, v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}},
	}
}

// archive is the file of all images in their folder; recipe, beside it, the digest of
// the code that made it.
const (
	archive = "conformance.tar"
	recipe  = "recipe.sha256"
)

var (
	//go:embed images.go
	imagesSource string
	//go:embed rootfs.go
	rootfsSource string
)

// makeImages writes the archive of the images, unless it is there, made by this code and
// younger than the programs in it.
func makeImages(ctx context.Context, bin, dir string) (err error) {
	sum := sha256.Sum256([]byte(imagesSource + rootfsSource))
	code := []byte(hex.EncodeToString(sum[:]) + "\n")
	if before, _ := os.ReadFile(filepath.Join(dir, recipe)); bytes.Equal(before, code) {
		if current, err := younger(filepath.Join(dir, archive), bin); err != nil || current {
			return err
		}
	}
	fmt.Println("images: made of Go modules and Debian packages (once)")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "pci")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := makeFolders(ctx, bin, filepath.Join(filepath.Dir(dir), "busybox"), work); err != nil {
		return err
	}
	if err := writeImages(bin, dir, work, images("debian")); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recipe), code, 0o644)
}

// writeImages writes the archive of images whose layers are folders in work, and the
// runtime's own image of pause beside it.
func writeImages(bin, dir, work string, list []image) (err error) {
	path := filepath.Join(dir, archive)
	layers, refs := map[string]v1.Layer{}, map[name.Reference]v1.Image{}
	for _, one := range list {
		img := empty.Image
		for _, folder := range one.layers {
			if layers[folder] == nil {
				if layers[folder], err = layerOf(filepath.Join(work, folder)); err != nil {
					return fmt.Errorf("layer %s: %w", folder, err)
				}
			}
			if img, err = mutate.AppendLayers(img, layers[folder]); err != nil {
				return err
			}
		}
		config := one.config
		config.Env, config.WorkingDir = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
		if img, err = mutate.Config(img, config); err != nil {
			return err
		}
		file, err := img.ConfigFile()
		if err != nil {
			return err
		}
		file = file.DeepCopy()
		file.OS, file.Architecture = "linux", runtime.GOARCH
		if img, err = mutate.ConfigFile(img, file); err != nil {
			return err
		}
		for _, tag := range one.tags {
			ref, err := name.NewTag(tag)
			if err != nil {
				return err
			}
			refs[ref] = img
		}
	}
	pause, err := os.ReadFile(filepath.Join(bin, "images", "pause.tar"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "pause.tar"), pause, 0o644); err != nil {
		return err
	}
	part := filepath.Join(work, archive)
	if err := tarball.MultiRefWriteToFile(part, refs); err != nil {
		return err
	}
	return move(part, path)
}

// alwaysPulled are the images of tests that ask for the pull policy Always.
var alwaysPulled = []string{testImages + "kitten:1.8"}

// pulledImages are those of them that the archive in a folder has, by repository and tag:
// a part of the suite is tested with fewer images.
func pulledImages(dir string) (map[string]v1.Image, error) {
	path := filepath.Join(dir, archive)
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(path) })
	if err != nil {
		return nil, fmt.Errorf("list the images of %s: %w", path, err)
	}
	all := map[string]v1.Image{}
	for _, one := range manifest {
		for _, image := range one.RepoTags {
			if !slices.Contains(alwaysPulled, image) {
				continue
			}
			tag, err := name.NewTag(image)
			if err != nil {
				return nil, err
			}
			if all[strings.TrimPrefix(image, imageRegistry+"/")], err = tarball.ImageFromPath(path, &tag); err != nil {
				return nil, fmt.Errorf("image %s: %w", image, err)
			}
		}
	}
	return all, nil
}

// move renames a file, to another file system too.
func move(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to + ".part")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(to+".part", to)
}

// younger reports whether a file is there and younger than the programs.
func younger(path, bin string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, program := range programs(bin) {
		from, err := os.Stat(program)
		if err != nil {
			return false, fmt.Errorf("%w; run make conformance, which builds it", err)
		}
		if from.ModTime().After(info.ModTime()) {
			return false, nil
		}
	}
	return true, nil
}

// layerOf is a folder as a layer, in which all belongs to root.
func layerOf(dir string) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeFolder(w, dir)) }() // ends when the reader does
		return r, nil
	})
}

func writeFolder(out io.Writer, dir string) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var target string
		if info.Mode()&fs.ModeSymlink != 0 {
			if target, err = os.Readlink(path); err != nil {
				return err
			}
		}
		head, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		if head.Name = name; entry.IsDir() {
			head.Name += "/"
		}
		head.Uid, head.Gid, head.Uname, head.Gname = 0, 0, "", ""
		head.ModTime, head.AccessTime, head.ChangeTime, head.Format = time.Unix(0, 0), time.Time{}, time.Time{}, tar.FormatPAX
		if err := w.WriteHeader(head); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if !info.Mode().IsRegular() {
			return nil
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(w, file)
		return err
	})
	return errors.Join(err, w.Close())
}
