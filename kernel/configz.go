package kernel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/kubescheduler"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler/framework"
	"pintle.dev/pintle/sdk"
)

// configz answers /configz: what this kernel is configured with, as pintle config
// show has it, and the scheduler's part of that as kube-scheduler tells its own,
// with what Plugin objects changed.
func (k *Kernel) configz(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		http.Error(w, "configz: GET is what is answered", http.StatusMethodNotAllowed)
		return
	}
	answer, err := k.configuration()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(answer)
}

func (k *Kernel) configuration() ([]byte, error) {
	cfg := k.config()
	var text bytes.Buffer
	if err := config.Show(&text, cfg); err != nil {
		return nil, err
	}
	var own any
	if err := yaml.Unmarshal(text.Bytes(), &own); err != nil {
		return nil, fmt.Errorf("configz: %w", err)
	}
	answer := map[string]any{config.Group: own}
	if cfg.Scheduler.Enabled {
		running := k.host.Scheduling()
		inForce := cfg.Scheduler
		inForce.Profiles = profilesInForce(running.Profiles)
		answer["kubescheduler.config.k8s.io"] = kubescheduler.Describe(&inForce, &cfg.Election, sharedConfigs(running.Bundles))
	}
	return json.Marshal(answer)
}

// profilesInForce are the host's profiles as the configuration file has them.
func profilesInForce(list []plugin.Profile) []config.Profile {
	var out []config.Profile
	for _, p := range list {
		at := func(kind string) []string { return p.Points[kind] }
		c := config.Profile{
			SchedulerName: p.SchedulerName, Predicates: p.Predicates, PreEnqueue: at(sdk.KindPreEnqueue), PreFilter: at(sdk.KindPreFilter),
			PostFilter: at(sdk.KindPostFilter), PreScore: at(sdk.KindPreScore), Reserve: at(sdk.KindReserve), Permit: at(sdk.KindPermit),
			PreBind: at(sdk.KindPreBind), Bind: at(sdk.KindBind), PostBind: at(sdk.KindPostBind),
		}
		if len(c.Bind) > 0 && !p.BindersOnly {
			c.Bind = append(slices.Clone(c.Bind), framework.DefaultBinder)
		}
		if sorts := at(sdk.KindQueueSort); len(sorts) > 0 {
			c.QueueSort = sorts[0]
		}
		for _, w := range p.Priorities {
			c.Priorities = append(c.Priorities, config.Priority{Name: w.Name, Weight: w.Weight})
		}
		if len(p.Config) > 0 {
			if raw, err := json.Marshal(p.Config); err == nil {
				c.Config = raw
			}
		}
		out = append(out, c)
	}
	return out
}

// sharedConfigs are the configurations of plugins, by name, that all profiles share.
func sharedConfigs(bundles []plugin.BundleConfig) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for _, b := range bundles {
		var configs map[string]json.RawMessage
		if len(b.Config) == 0 || json.Unmarshal(b.Config, &configs) != nil {
			continue
		}
		for name, raw := range configs {
			out[name] = raw
		}
	}
	return out
}
