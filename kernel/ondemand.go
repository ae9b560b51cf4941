package kernel

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/demand"
)

// onDemand are the names of the controllers that start when an object asks for them.
func onDemand(cfg *config.Config) []string {
	names := make([]string, 0, len(cfg.Control.OnDemand))
	for _, d := range cfg.Control.OnDemand {
		names = append(names, d.Name)
	}
	return names
}

// wants are the objects that start controllers.
func wants(cfg *config.Config) []demand.Want {
	var out []demand.Want
	for _, d := range cfg.Control.OnDemand {
		w := demand.Want{Plugin: d.Name}
		for _, o := range d.Objects {
			r := demand.Rule{Resource: schema.GroupVersionResource{Group: o.Group, Version: o.Version, Resource: o.Resource}}
			for _, f := range o.Fields {
				r.Fields = append(r.Fields, demand.Field{Member: f.Member(), Values: f.Values})
			}
			w.Rules = append(w.Rules, r)
		}
		out = append(out, w)
	}
	return out
}

// startOnDemand looks for objects that ask for controllers while the kernel runs.
func (k *Kernel) startOnDemand() error {
	rc := rest.CopyConfig(k.api.ClientConfig(hostIdentity))
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("client for controllers.onDemand: %w", err)
	}
	k.parts.Start("controllers on demand", func(ctx context.Context) error {
		return k.demand.Run(ctx, demand.Config{
			Client: client, Log: k.log.With("part", "plugins"),
			Start: func(string, string) error {
				k.hostMu.Lock()
				defer k.hostMu.Unlock()
				return k.host.Reconfigure(k.hostConfig(k.config()))
			},
		})
	}, nil)
	return nil
}
