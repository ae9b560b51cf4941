package e2e

import (
	"os"
	"sync"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/plugins/runtimes/containerd/image"
)

// box is the image of most test pods, as pods name it.
const (
	registryAddress = cluster.RegistryAddress
	box             = registryAddress + "/box:1"
)

// boxImage is built once: the program e2e/images/box and a folder for a
// non-root user.
var boxImage = sync.OnceValues(func() (v1.Image, error) {
	path, err := buildTool("box", "./e2e/images/box", "")
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return image.Build(
		[]image.File{{Path: "/box", Data: program, Mode: 0o755}, {Path: "/etc/passwd", Data: []byte("root:x:0:0::/:\nboxer:x:1234:1234::/:\n"), Mode: 0o644}},
		image.Config{Entrypoint: []string{"/box"}, Cmd: []string{"wait", "by-default"}, Env: []string{"PATH=/", "FROM_IMAGE=yes"}},
	)
})

// serveImages runs a registry with the test images.
func serveImages(n *cluster.Network) (*cluster.Registry, error) {
	img, err := boxImage()
	if err != nil {
		return nil, err
	}
	return cluster.NewRegistry(n, map[string]v1.Image{"box:1": img, "box:2": img})
}
