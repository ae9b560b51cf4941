package shadow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// session is one candidate: its hosts and the comparison.
type session struct {
	bundle string
	spec   v1alpha1.PluginShadowSpec
	state  string // of the policy it was started with
	log    *slog.Logger
	since  time.Time

	present, candidate *plugin.Host
	was                v1alpha1.PluginVersion
	version, digest    string
	comparison         *explain.Comparison

	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex
	release func()
	fault   error
}

func newSession(bundle string, spec v1alpha1.PluginShadowSpec, state string, log *slog.Logger) *session {
	return &session{bundle: bundle, spec: spec, state: state, log: log, since: time.Now()}
}

func (x *session) failed(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.fault == nil {
		x.fault = err
	}
}

// prepare makes both hosts and the comparison.
func (x *session) prepare(policy plugin.Config, cfg *Config) error {
	at := slices.IndexFunc(policy.Bundles, func(b plugin.BundleConfig) bool { return b.Name == x.bundle })
	if at < 0 {
		return fmt.Errorf("bundle %s places no pods: only predicates and priorities of a profile can be compared", x.bundle)
	}
	dir, err := cfg.Host.Locate(x.bundle, x.spec.Version, x.spec.Digest)
	if err != nil {
		return err
	}
	// A plugin that is down must not look as if it refused.
	mirror := policy
	mirror.Bundles = slices.Clone(policy.Bundles)
	for i := range mirror.Bundles {
		mirror.Bundles[i].OnFailure = manifest.OnFailureIgnore
	}
	next := mirror
	next.Bundles = slices.Clone(mirror.Bundles)
	if _, err := next.Replace(x.bundle, dir); err != nil {
		return err
	}
	if x.present, err = plugin.New(mirror, plugin.Deps{Log: x.log.With("side", "present"), Beside: cfg.Host, Apart: "@present-of-" + x.bundle}); err != nil {
		return err
	}
	if x.candidate, err = plugin.New(next, plugin.Deps{Log: x.log.With("side", "candidate"), Beside: cfg.Host, Apart: "@candidate-of-" + x.bundle}); err != nil {
		return err
	}
	x.was = versionOf(x.present, x.bundle)
	now := versionOf(x.candidate, x.bundle)
	x.version, x.digest = now.Version, now.Digest
	pairs := map[string]explain.PolicyPair{}
	for _, p := range policy.Profiles {
		pairs[p.SchedulerName] = explain.PolicyPair{Present: x.present.Source(p.SchedulerName), Candidate: x.candidate.Source(p.SchedulerName)}
	}
	if x.comparison, err = explain.NewComparison(explain.ComparisonConfig{Profiles: pairs, Log: x.log}); err != nil {
		return err
	}
	x.present.SetReplicaSource(x.comparison)
	x.candidate.SetReplicaSource(x.comparison)
	return nil
}

func versionOf(h *plugin.Host, bundle string) v1alpha1.PluginVersion {
	for _, p := range h.Plugins() {
		if p.Spec.Bundle == bundle {
			return v1alpha1.PluginVersion{Version: p.Status.Version, Digest: p.Status.Digest}
		}
	}
	return v1alpha1.PluginVersion{}
}

// start runs it until end.
func (x *session) start(ctx context.Context) {
	ctx, x.cancel = context.WithCancel(ctx)
	host := func(side string, h *plugin.Host) {
		x.group.Go(func() {
			if err := h.Run(ctx); err != nil && ctx.Err() == nil {
				x.failed(fmt.Errorf("%s: %w", side, err))
				x.log.Warn("shadow cannot run", "side", side, "error", err)
			}
		})
	}
	host("mirror of the present version", x.present)
	host("candidate", x.candidate)
	x.group.Go(func() { _ = x.comparison.Run(ctx) })
}

// follow turns to a scheduler; nil: none.
func (x *session) follow(s Scheduler) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.release != nil {
		x.release()
		x.release = nil
	}
	if s != nil && x.comparison != nil && x.cancel != nil {
		x.release = s.Follow(x.comparison)
	}
}

func (x *session) end() {
	x.follow(nil)
	if x.cancel != nil {
		x.cancel()
	}
	x.group.Wait()
}

func (x *session) report(after uint64) *Report {
	r := &Report{
		Bundle: x.bundle, Present: x.was, Candidate: v1alpha1.PluginVersion{Version: x.version, Digest: x.digest},
		Since: x.since, State: v1alpha1.PluginStateReady,
	}
	if r.Candidate.Version == "" {
		r.Candidate = v1alpha1.PluginVersion{Version: x.spec.Version, Digest: x.spec.Digest}
	}
	x.mu.Lock()
	fault := x.fault
	x.mu.Unlock()
	if x.comparison != nil {
		r.Diff = x.comparison.Report(after)
	}
	if fault != nil {
		r.State, r.Message = v1alpha1.PluginStateFailed, fault.Error()
		return r
	}
	for _, p := range x.candidate.Plugins() {
		if p.Spec.Bundle == x.bundle && p.Status.State != v1alpha1.PluginStateDisabled {
			r.State, r.Message = p.Status.State, p.Status.Message
			break
		}
	}
	return r
}
