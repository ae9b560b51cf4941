package plugin

import (
	"context"
	"fmt"
	"slices"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// rehearsal says which units of a plan are started as copies before the plan is
// turned to.
type rehearsal int

const (
	// everything that the plan would start, configure or enable anew: before the
	// change is written.
	everything rehearsal = iota
	// enabled anew alone: what is started anew is tried itself.
	newlyEnabled
)

// rehearse starts a copy of each unit about which a plan is new, beside the units
// in force and in no profile, has it take its configuration and asks its enabled
// plugins one question. The copies have no identity and no socket, and end before it
// returns. An error says which plugin is not fit for the plan; nothing has changed.
func (h *Host) rehearse(ctx context.Context, before, next *plan, what rehearsal) error {
	h.mu.Lock()
	running := h.ctx
	h.mu.Unlock()
	if running == nil {
		return nil // the start tells
	}
	h.trialMu.Lock() // copies of one change at a time
	defer h.trialMu.Unlock()
	for _, u := range next.units {
		if !u.active {
			continue
		}
		asked := newlyAsked(before, next, u)
		fresh := !slices.Contains(before.units, u)
		bc, former := next.configs[u], before.configs[u]
		changed, _ := changedConfigs(&former, &bc)
		switch {
		case what == newlyEnabled && (fresh || len(asked) == 0):
			continue
		case !fresh && len(asked) == 0 && (len(changed) == 0 || !u.rehearsable()):
			continue
		}
		if err := h.rehearseOne(ctx, next, u, fresh && what == everything); err != nil {
			return startError{err}
		}
	}
	return nil
}

// rehearseOne tries one unit of a plan; with own the unit itself is of no other use.
func (h *Host) rehearseOne(ctx context.Context, next *plan, u *unit, own bool) error {
	tried := u
	if !own {
		var err error
		if tried, err = h.resolveUnit(&next.cfg, next.configs[u]); err != nil {
			return err
		}
	}
	if tried.ungranted != nil {
		return tried.ungranted // it has no walls, and is not started to be tried either
	}
	tried.active = true // a copy, or of no other use
	source := newTrialSource(h.source())
	tried.source = func() ReplicaSource { return source }
	if tried.scheduling() {
		tried.wanted = 1 // it has the replica before it counts as started
	}
	tried.changed = func() {}
	h.launch(h.ctx, tried)
	defer h.end(tried)
	ctx, cancel := context.WithTimeout(ctx, next.cfg.StartTimeout+feedFor)
	defer cancel()
	if err := settle(ctx, []*unit{tried}); err != nil {
		return err
	}
	return tried.questions(ctx, next, source.Replica())
}

// rehearsable reports whether another guest may be configured beside the one that
// runs: a runtime, a proxy or a network acts upon the machine when it is.
func (u *unit) rehearsable() bool {
	return !slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool {
		return e.Kind == sdk.KindRuntime || e.Kind == sdk.KindProxy || e.Kind == sdk.KindNetwork
	})
}

// newlyAsked are the predicates and priorities of a unit that a plan asks and the
// one before does not.
func newlyAsked(before, next *plan, u *unit) []*manifest.Entry {
	var out []*manifest.Entry
	for i := range u.bundle.Manifest.Plugins {
		e := &u.bundle.Manifest.Plugins[i]
		if tried(e) && next.enabled(e.Name) && !before.enabled(e.Name) {
			out = append(out, e)
		}
	}
	return out
}

// tried reports whether a plugin can be asked a question without a decision.
func tried(e *manifest.Entry) bool { return e.Kind == sdk.KindPredicate || e.Kind == sdk.KindPriority }

// questions asks each enabled plugin of a unit about nodes of a replica that it has.
func (u *unit) questions(ctx context.Context, p *plan, of *contractv1.Delta) error {
	class, nodes := sample(of)
	if len(nodes) == 0 {
		return nil
	}
	for i := range u.bundle.Manifest.Plugins {
		e := &u.bundle.Manifest.Plugins[i]
		if !tried(e) || !p.enabled(e.Name) {
			continue
		}
		if err := u.trial(ctx, e, class, nodes); err != nil {
			return fmt.Errorf("plugin %s: version %s of bundle %s broke when it was tried: %w", e.Name, u.bundle.Manifest.Version, u.bundle.Manifest.Name, err)
		}
	}
	return nil
}

// trialSource is the scheduler's replica of one moment, or where nothing can be
// asked about that yet, a replica of one made-up node and one made-up pod.
type trialSource struct{ full *contractv1.Delta }

func newTrialSource(of ReplicaSource) *trialSource {
	if of != nil {
		if full := of.Replica(); full.GetGeneration() > 0 {
			if _, nodes := sample(full); len(nodes) > 0 {
				return &trialSource{full}
			}
		}
	}
	return &trialSource{madeUp}
}

func (s *trialSource) Replica() *contractv1.Delta { return s.full }

// madeUp is an ordinary node and an ordinary pod.
var madeUp = &contractv1.Delta{Generation: 1, Reset_: true, Operations: []*contractv1.Operation{
	{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: 0, Node: &contractv1.Node{
		Name:        "trial",
		Labels:      map[string]string{"kubernetes.io/hostname": "trial", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
		Allocatable: &contractv1.Resources{MilliCpu: 4000, Memory: 8 << 30, EphemeralStorage: 32 << 30, Pods: 110},
	}}}},
	{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: &contractv1.Pod{
		Namespace: "default", Labels: map[string]string{"app": "trial"}, SchedulerName: "default-scheduler",
		Requests: &contractv1.Resources{MilliCpu: 100, Memory: 64 << 20},
	}}}},
}}

// Try starts a bundle as a configuration would load it, with what Plugin objects ask
// of it but for its build, and ends it. Nothing is changed. It runs as an
// unprivileged bundle does, without an identity; one that would have the kernel's
// rights, or lacks a grant, is not started.
func (h *Host) Try(ctx context.Context, cfg Config, bundle string) (err error) {
	cfg.defaults()
	before := h.present()
	w := before.wishes.clone()
	for _, name := range []string{"version", "digest"} {
		if w.wide[bundle] != nil {
			w.wide[bundle].put(name, nil)
		}
	}
	// A build that failed once may start now.
	tried, err := h.resolveUnit(&cfg, *bundleOf(&cfg, bundle))
	if err != nil {
		return err
	}
	h.mu.Lock()
	former, failed := h.failed[tried.build()]
	delete(h.failed, tried.build())
	h.mu.Unlock()
	if failed {
		defer func() {
			if err != nil {
				h.mu.Lock()
				h.failed[tried.build()] = former
				h.mu.Unlock()
			}
		}()
	}
	next, err := h.newPlan(&cfg, w, before)
	if err != nil {
		return err
	}
	if b := next.broken[bundle]; b != nil {
		return b.fault
	}
	if err := next.held[bundle]; err != nil {
		return err
	}
	for _, u := range next.units {
		if u.bundle.Manifest.Name == bundle && !slices.Contains(before.units, u) {
			if u.ungranted != nil || u.bundle.Manifest.Privileged {
				return nil // who is not held back is not tried
			}
			h.trialMu.Lock()
			defer h.trialMu.Unlock()
			return h.rehearseOne(ctx, next, u, true)
		}
	}
	return nil
}
