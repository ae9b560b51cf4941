package nodepart

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"pintle.dev/pintle/kernel/parts"
	"pintle.dev/pintle/sdk/network"
	"pintle.dev/pintle/sdk/runtime"
)

const (
	// runtimeCheck is how often the runtime plugin is asked whether its endpoint
	// still stands.
	runtimeCheck = 5 * time.Second
	// RuntimeState begins the names of runtimes' folders among the sockets. What runs
	// keeps its sockets and mounts there, and a runtime that did not start this
	// time may have left containers that go on: only who stopped it removes them.
	RuntimeState = "runtime-"
)

// RuntimeOptions say which runtime starts, and where; all is required but NodeName and Pods.
type RuntimeOptions struct {
	Plugins Plugins
	// Name is the plugin's.
	Name              string
	NodeName, PodCIDR string
	// ClusterCIDRs are as in node.clusterCIDRs.
	ClusterCIDRs []string
	// Pods is how pods' interfaces are made.
	Pods network.Pods
	// Data and Sockets are as in Config.
	Data, Sockets string
	// Keep says at the stop whether containers go on.
	Keep   func() bool
	Logger *slog.Logger
}

// StartRuntime makes a runtime plugin's endpoint ready and keeps asking for it, as a piece
// of list.
func StartRuntime(ctx context.Context, list *parts.Parts, o RuntimeOptions) (runtime.Endpoint, error) {
	r, err := o.Plugins.Runtime(o.Name)
	if err != nil {
		return runtime.Endpoint{}, fmt.Errorf("runtime %s: %w", o.Name, err)
	}
	options := runtime.Options{
		Name: o.Name, Config: o.Plugins.PluginConfig(o.Name), NodeName: o.NodeName, PodCIDR: o.PodCIDR, ClusterCIDRs: o.ClusterCIDRs, Pods: o.Pods,
		DataDirectory:  filepath.Join(o.Data, "runtime", o.Name),
		StateDirectory: filepath.Join(o.Sockets, RuntimeState+o.Name),
	}
	for _, dir := range []string{options.DataDirectory, options.StateDirectory} {
		// Containers of any user pass through on the way to their mounts.
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return runtime.Endpoint{}, fmt.Errorf("runtime %s: %w", o.Name, err)
		}
	}
	endpoint, err := r.Start(ctx, options)
	if err != nil {
		return endpoint, fmt.Errorf("runtime %s: %w", o.Name, err)
	}
	log := o.Logger.With("part", "runtime", "runtime", o.Name)
	log.Info("runtime is ready", "version", endpoint.Version, "how", endpoint.Message)
	list.Start("runtime "+o.Name, func(ctx context.Context) error {
		tick := time.NewTicker(runtimeCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				if _, err := r.Status(ctx); err != nil && ctx.Err() == nil {
					log.Warn("runtime is not ready", "error", err)
				}
			}
		}
	}, func(ctx context.Context) error {
		keep := o.Keep()
		if err := r.Stop(ctx, keep); err != nil || keep {
			return err
		}
		return os.RemoveAll(options.StateDirectory)
	})
	return endpoint, nil
}
