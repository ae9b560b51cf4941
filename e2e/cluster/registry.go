package cluster

import (
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// RegistryAddress is where a Registry listens in its network.
const RegistryAddress = "127.0.0.1:5000"

// Registry serves images on the loopback of a network, without TLS.
type Registry struct {
	server *http.Server
	done   chan error
}

// NewRegistry serves images by their repository and tag, such as box:1, at
// RegistryAddress of a network.
func NewRegistry(n *Network, images map[string]v1.Image) (*Registry, error) {
	l, err := n.Listen("tcp", RegistryAddress)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		server: &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: 5 * time.Second},
		done:   make(chan error, 1),
	}
	go func() { r.done <- r.server.Serve(l) }()
	for _, tag := range slices.Sorted(maps.Keys(images)) {
		ref, err := name.NewTag(RegistryAddress+"/"+tag, name.Insecure)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if err := remote.Write(ref, images[tag], remote.WithTransport(&http.Transport{DialContext: n.Dial})); err != nil {
			return nil, errors.Join(fmt.Errorf("push %s: %w", tag, err), r.Close())
		}
	}
	return r, nil
}

// Close ends the registry.
func (r *Registry) Close() error {
	err := r.server.Close()
	if end := <-r.done; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
