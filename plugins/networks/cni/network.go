package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"pintle.dev/pintle/sdk/network"
)

// Name is the plugin's.
const Name = "cni"

// Config is the plugin's configuration.
type Config struct {
	// Configurations is the folder of CNI configurations, an absolute path. The runtime
	// uses the first by name. Defaults to /etc/cni/net.d.
	Configurations string `json:"configurations,omitempty"`
	// Plugins is a folder of CNI plugins beside the runtime's, an absolute path. Defaults
	// to /opt/cni/bin.
	Plugins string `json:"plugins,omitempty"`
}

func parseConfig(data []byte) (Config, error) {
	c := Config{Configurations: "/etc/cni/net.d", Plugins: "/opt/cni/bin"}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return c, fmt.Errorf("configuration of network %s: %w", Name, err)
		}
	}
	for _, path := range []string{c.Configurations, c.Plugins} {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return c, fmt.Errorf("configuration of network %s: %q: want the absolute path of a folder", Name, path)
		}
	}
	return c, nil
}

// Network implements network.Network.
type Network struct {
	mu         sync.Mutex
	folder     string // empty: it is not started
	generation uint64
}

var _ network.Network = (*Network)(nil)

// New returns a network that is not started.
func New() *Network { return &Network{} }

// Probe implements network.Network.
func (n *Network) Probe(_ context.Context, config []byte) error {
	_, err := parseConfig(config)
	return err
}

// Start implements network.Network. The folder may be filled later.
func (n *Network) Start(_ context.Context, o network.Options) (network.Pods, error) {
	c, err := parseConfig(o.Config)
	if err != nil {
		return network.Pods{}, err
	}
	if err := os.MkdirAll(c.Configurations, 0o755); err != nil {
		return network.Pods{}, fmt.Errorf("start network %s: %w", Name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.folder = c.Configurations
	return network.Pods{CNIConfigurations: c.Configurations, CNIPlugins: c.Plugins}, nil
}

// Apply implements network.Network: the CNI itself knows the other nodes.
func (n *Network) Apply(_ context.Context, diff *network.Diff) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.generation = diff.GetGeneration()
	return nil
}

// Status implements network.Network.
func (n *Network) Status() network.Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := network.Status{Generation: n.generation}
	if n.folder == "" {
		s.Message = network.ErrNotStarted.Error()
		return s
	}
	entries, err := os.ReadDir(n.folder)
	if err != nil {
		s.Message = err.Error()
		return s
	}
	// The endings that libcni takes.
	at := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		return slices.Contains([]string{".conflist", ".conf", ".json"}, filepath.Ext(e.Name()))
	})
	if at < 0 {
		s.Message = "there is no CNI configuration (*.conflist) in " + n.folder
		return s
	}
	s.Ready, s.Message = true, filepath.Join(n.folder, entries[at].Name())
	return s
}

// Stop implements network.Network: what a CNI made is its own.
func (n *Network) Stop(context.Context, bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.folder = ""
	return nil
}
