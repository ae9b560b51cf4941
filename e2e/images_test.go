package e2e

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/plugins/runtimes/containerd/image"
)

// box is the image of most test pods, as pods name it.
const (
	registryAddress = "127.0.0.1:5000"
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

// imageServer is a registry on the loopback of a network.
type imageServer struct {
	server *http.Server
	done   chan error
}

// serveImages runs a registry with the test images at registryAddress.
func serveImages(n *cluster.Network) (*imageServer, error) {
	img, err := boxImage()
	if err != nil {
		return nil, err
	}
	var l net.Listener
	if l, err = n.Listen("tcp", registryAddress); err != nil {
		return nil, err
	}
	s := &imageServer{
		server: &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: 5 * time.Second},
		done:   make(chan error, 1),
	}
	go func() { s.done <- s.server.Serve(l) }()
	for _, tag := range []string{box, registryAddress + "/box:2"} {
		ref, err := name.NewTag(tag, name.Insecure)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if err := remote.Write(ref, img, remote.WithTransport(&http.Transport{DialContext: n.Dial})); err != nil {
			return nil, errors.Join(fmt.Errorf("push %s: %w", tag, err), s.Close())
		}
	}
	return s, nil
}

// Close ends the registry.
func (s *imageServer) Close() error {
	err := s.server.Close()
	if end := <-s.done; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
