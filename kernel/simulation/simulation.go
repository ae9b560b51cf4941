package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/scheduler/explain"
)

// ErrRequest is wrapped where a request asks for what cannot be.
var ErrRequest = errors.New("simulate")

// Request is what to simulate.
type Request struct {
	Pods []*v1.Pod `json:"pods"`
	// With replaces bundles: by the name of a bundle or plugin, the folder of another
	// build. Only where the policy is at hand; a kernel refuses it.
	With map[string]string `json:"with,omitempty"`
	// Set are weights by priority, or by profile/priority.
	Set map[string]int64 `json:"set,omitempty"`
	// Disable are plugins to leave out, by name or profile/name.
	Disable []string `json:"disable,omitempty"`
	// Nodes is how many nodes are told of for each pod; 0: all.
	Nodes int `json:"nodes,omitempty"`
	// Seed of the choice between tied nodes; 0: 1, so that runs can be compared.
	Seed uint64 `json:"seed,omitempty"`
}

// different reports whether another policy than the present one is asked for.
func (r *Request) different() bool { return len(r.With)+len(r.Set)+len(r.Disable) > 0 }

// Report says where the pods would go.
type Report struct {
	// Snapshot is where the picture came from.
	Snapshot string `json:"snapshot"`
	Nodes    int    `json:"nodes"`
	// Compared: the request asks for another policy than the present one, and
	// Present of each pod is what that does. Moved counts the pods that differ.
	Compared bool  `json:"compared"`
	Moved    int   `json:"moved"`
	Placed   int   `json:"placed"`
	Pods     []Pod `json:"pods"`
	// Unasked are extenders of the policy that had no say, by their URLs.
	Unasked []string `json:"unaskedExtenders,omitempty"`
}

// Pod is where one pod would go.
type Pod struct {
	*explain.Explanation
	Present *explain.Explanation `json:"present,omitempty"`
	Moves   bool                 `json:"moves,omitempty"`
}

// Run simulates a request on a picture, by the policy of cfg (plugin.Host's
// Choosing). deps are those of the hosts that it runs for that long.
func Run(ctx context.Context, cfg plugin.Config, cluster *scheduler.Cluster, r *Request, deps plugin.Deps) (*Report, error) {
	if len(r.Pods) == 0 {
		return nil, fmt.Errorf("%w: no pod to place", ErrRequest)
	}
	next, err := cfg, error(nil)
	if r.different() {
		if next, err = change(cfg, r); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRequest, err)
		}
	}
	present, err := place(ctx, cfg, cluster, r, nil, deps)
	if err != nil {
		return nil, err
	}
	out := &Report{Nodes: len(cluster.Nodes), Compared: r.different(), Pods: make([]Pod, len(present))}
	placed := present
	if out.Compared {
		if placed, err = place(ctx, next, cluster, r, present, deps); err != nil {
			return nil, fmt.Errorf("by the other policy: %w", err)
		}
	}
	for i, x := range placed {
		p := &out.Pods[i]
		p.Explanation = x
		if x.Node != "" {
			out.Placed++
		}
		if !out.Compared {
			continue
		}
		p.Present = present[i]
		if p.Moves = p.Node != p.Present.Node; p.Moves {
			out.Moved++
		}
	}
	return out, nil
}

// place runs a host for as long as it takes to place the pods.
func place(ctx context.Context, cfg plugin.Config, cluster *scheduler.Cluster, r *Request, before []*explain.Explanation, deps plugin.Deps) (_ []*explain.Explanation, err error) {
	host, err := plugin.New(cfg, deps)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	defer func() {
		cancel()
		err = errors.Join(err, <-ended)
	}()
	select {
	case <-host.Ready():
	case fault := <-ended:
		ended <- nil
		return nil, errors.Join(fault, context.Cause(ctx))
	}
	profiles := map[string]scheduler.PolicySource{}
	for _, p := range cfg.Profiles {
		profiles[p.SchedulerName] = host.Source(p.SchedulerName)
	}
	seed := r.Seed
	if seed == 0 {
		seed = 1
	}
	return scheduler.Simulate(ctx, cluster, r.Pods, profiles, host.SetReplicaSource, seed, before, explain.Options{Nodes: r.Nodes})
}

// change makes the policy that a request asks for.
func change(cfg plugin.Config, r *Request) (plugin.Config, error) {
	cfg.Bundles, cfg.Profiles = slices.Clone(cfg.Bundles), slices.Clone(cfg.Profiles)
	for name, dir := range r.With {
		if _, err := cfg.Replace(name, dir); err != nil {
			return cfg, err
		}
	}
	for _, name := range r.Disable {
		if err := each(&cfg, name, func(p *plugin.Profile, plain string) bool {
			before := len(p.Predicates) + len(p.Priorities)
			p.Predicates = slices.DeleteFunc(slices.Clone(p.Predicates), func(n string) bool { return n == plain })
			p.Priorities = slices.DeleteFunc(slices.Clone(p.Priorities), func(w plugin.WeightedPriority) bool { return w.Name == plain })
			return len(p.Predicates)+len(p.Priorities) < before
		}); err != nil {
			return cfg, err
		}
	}
	for name, weight := range r.Set {
		if weight < 1 || weight > 1_000_000 {
			return cfg, fmt.Errorf("weight %d of %s: want 1 to 1000000", weight, name)
		}
		if err := each(&cfg, name, func(p *plugin.Profile, plain string) bool {
			p.Priorities = slices.Clone(p.Priorities)
			for i := range p.Priorities {
				if p.Priorities[i].Name == plain {
					p.Priorities[i].Weight = weight
					return true
				}
			}
			return false
		}); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// each applies f to the profiles that a name, perhaps with a profile before a
// slash, speaks of; it is an error when f finds it in none.
func each(cfg *plugin.Config, name string, f func(p *plugin.Profile, plain string) bool) error {
	profile, plain, named := strings.Cut(name, "/")
	if !named {
		profile, plain = "", name
	}
	found := false
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		if profile == "" || profile == p.SchedulerName {
			found = f(p, plain) || found
		}
	}
	if !found {
		var have []string
		for _, p := range cfg.Profiles {
			have = append(have, p.Predicates...)
			for _, w := range p.Priorities {
				have = append(have, w.Name)
			}
		}
		slices.Sort(have)
		return fmt.Errorf("no profile uses %s in this way; there are: %s", name, strings.Join(slices.Compact(have), ", "))
	}
	return nil
}
