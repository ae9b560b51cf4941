package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	// retireAfter bounds how long replaced bundles wait for the scheduler to turn
	// to the new policy, and how long a changed configuration waits for a pause
	// between two decisions.
	retireAfter = 5 * time.Second
	// feedFor bounds how long a new version may take to be fed before the switch.
	feedFor = 30 * time.Second
	// trialNodes is how many nodes a new version is asked about before the switch.
	trialNodes = 64
)

// startError says that a plan's guests could not be started, or refused their
// configuration or a trial.
type startError struct{ error }

func (e startError) Unwrap() error { return e.error }

// Reconfigure brings the host to a new configuration file while scheduling runs:
// bundles that are new or changed are started, configured and fed before the
// profiles turn to them, which the scheduler does between two decisions; what is
// no longer named is stopped afterwards. Fields of Plugin objects that the file
// says nothing new about stay as they are. On an error everything stays as it was.
func (h *Host) Reconfigure(cfg Config) error {
	cfg.defaults()
	h.applyMu.Lock()
	defer h.applyMu.Unlock()
	before := h.present()
	w := before.wishes.clone()
	for i := range cfg.Bundles {
		w.configured(bundleOf(before.base, cfg.Bundles[i].Name), &cfg.Bundles[i])
	}
	for {
		next, err := h.newPlan(&cfg, w, before)
		if err == nil {
			w.forget(next)
			if err = h.apply(next); err != nil && h.setAside(next) {
				continue // without those that could not be started and are only installed
			}
		}
		if err != nil {
			return fmt.Errorf("plugins stay as they were: %w", err)
		}
		break
	}
	h.retry()
	return nil
}

// configured lets what the configuration says anew of a bundle count.
func (w *wishes) configured(before, now *BundleConfig) {
	wide, ok := w.wide[now.Name]
	if !ok {
		return
	}
	old, next := fieldsOf(seedOf(&Config{}, before, &manifest.Entry{})), fieldsOf(seedOf(&Config{}, now, &manifest.Entry{}))
	for _, name := range wideFields {
		if !old.same(next, name) {
			wide.put(name, next[name])
		}
	}
}

// apply turns to a plan. applyMu is held. On an error nothing has changed.
func (h *Host) apply(next *plan) error {
	before := h.present()
	if h.ctx == nil {
		for u, bc := range next.configs {
			u.config = bc
		}
		h.commit(next, nil)
		return nil
	}
	var fresh, idle, gone []*unit
	for _, u := range next.units {
		if slices.Contains(before.units, u) {
			continue
		}
		if u.active {
			fresh = append(fresh, u)
		} else {
			idle = append(idle, u)
		}
	}
	for _, u := range before.units {
		if u.active && !slices.Contains(next.units, u) {
			gone = append(gone, u)
		}
	}
	for _, u := range fresh {
		h.launch(h.ctx, u)
	}
	// What holds nothing of the scheduler's has no replica to take.
	h.attend(slices.DeleteFunc(slices.Clone(fresh), func(u *unit) bool { return !u.scheduling() })...)
	reconfigurations, err := h.start(before, next, fresh)
	if err != nil {
		h.dismiss(fresh...)
		for _, u := range fresh {
			h.end(u)
		}
		return startError{err}
	}
	for _, u := range fresh {
		if old := namesake(before.units, u); old != nil {
			u.succeed(old)
		}
	}
	policies, err := h.policies(next, reconfigurations)
	var reviews []*Admission
	if err == nil {
		reviews, err = h.newAdmissions(next)
	}
	if err == nil {
		h.turn(policies)
		if err = h.reconfigure(next, reconfigurations); err != nil {
			h.takeBack(before)
		}
	}
	h.dismiss(fresh...)
	if err != nil {
		for _, u := range fresh {
			h.end(u)
		}
		return startError{err}
	}
	for _, u := range idle {
		if old := namesake(before.units, u); old != nil {
			u.succeed(old) // what it was asked so far
		}
	}
	h.admissions.Store(&reviews)
	h.commit(next, gone)
	return nil
}

// start waits until the new units run, feeds those that take the place of others
// and tries them, and finds out which running guests have a new configuration.
func (h *Host) start(before, next *plan, fresh []*unit) ([]*reconfiguration, error) {
	wait, cancel := context.WithTimeout(h.ctx, next.cfg.StartTimeout)
	defer cancel()
	if err := settle(wait, fresh); err != nil {
		return nil, err
	}
	for _, u := range fresh {
		if err := h.prepare(h.ctx, next, u); err != nil {
			return nil, err
		}
	}
	if err := h.rehearse(h.ctx, before, next, newlyEnabled); err != nil {
		return nil, err
	}
	var list []*reconfiguration
	for _, u := range next.units {
		bc := next.configs[u]
		if !u.active || slices.Contains(fresh, u) {
			continue
		}
		u.mu.Lock()
		changed, _ := changedConfigs(&u.config, &bc)
		if len(changed) == 0 {
			u.config = bc
		}
		u.mu.Unlock()
		if len(changed) > 0 {
			list = append(list, newReconfiguration(u, bc, changed))
		}
	}
	return list, nil
}

// namesake is the unit of the same bundle.
func namesake(units []*unit, u *unit) *unit {
	for _, o := range units {
		if o.bundle.Manifest.Name == u.bundle.Manifest.Name {
			return o
		}
	}
	return nil
}

// succeed takes over the counters of the unit that this one replaces.
func (u *unit) succeed(old *unit) {
	for name, s := range u.stats {
		if o := old.stats[name]; o != nil {
			s.succeed(o)
		}
	}
	u.budget.Succeed(old.budget)
	old.stateMu.Lock()
	restarts := old.restarts
	old.stateMu.Unlock()
	u.stateMu.Lock()
	u.restarts += restarts
	u.stateMu.Unlock()
}

// attend has units fed beside those of the profiles, from the next delta on.
func (h *Host) attend(units ...*unit) {
	h.besideMu.Lock()
	defer h.besideMu.Unlock()
	var list []*unit
	if now := h.beside.Load(); now != nil {
		list = slices.Clone(*now)
	}
	list = append(list, units...)
	h.beside.Store(&list)
}

// dismiss ends what attend began.
func (h *Host) dismiss(units ...*unit) {
	h.besideMu.Lock()
	defer h.besideMu.Unlock()
	now := h.beside.Load()
	if now == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*now), func(u *unit) bool { return slices.Contains(units, u) })
	h.beside.Store(&list)
}

// feed brings a unit up to the scheduler's replica, outside of any decision.
func (h *Host) feed(ctx context.Context, u *unit) error {
	source := h.source()
	if source == nil || source.Replica().GetGeneration() == 0 {
		return nil // nothing is scheduled yet
	}
	ctx, cancel := context.WithTimeout(ctx, feedFor)
	defer cancel()
	for {
		u.mu.Lock()
		if u.guest == nil {
			u.mu.Unlock()
			return u.brokeEarly()
		}
		if u.catching == nil && u.fed > 0 {
			u.mu.Unlock()
			return nil
		}
		if u.catching == nil {
			u.catchUpLater(true)
		}
		caught := u.catching
		u.mu.Unlock()
		select {
		case <-caught:
		case <-ctx.Done():
			return fmt.Errorf("plugin bundle %s: it did not take in the cluster's state in time", u.bundle.Manifest.Name)
		}
	}
}

// brokeEarly is why a unit has no guest.
func (u *unit) brokeEarly() error {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	return fmt.Errorf("plugin bundle %s: it broke before the switch: %s", u.bundle.Manifest.Name, u.message)
}

// prepare feeds a unit that starts, and asks it about some nodes: one that breaks
// over the first question does not get there. Where nothing is known to ask about
// yet, a copy of it is asked about what is made up.
func (h *Host) prepare(ctx context.Context, next *plan, u *unit) error {
	scheduling := slices.ContainsFunc(u.bundle.Manifest.Plugins, func(e manifest.Entry) bool { return tried(&e) && next.enabled(e.Name) })
	if !scheduling {
		return nil
	}
	if err := h.feed(ctx, u); err != nil {
		return err
	}
	if source := h.source(); source != nil {
		if full := source.Replica(); full.GetGeneration() > 0 {
			if _, nodes := sample(full); len(nodes) > 0 {
				return u.questions(ctx, next, full)
			}
		}
	}
	return h.rehearseOne(ctx, next, u, false)
}

// sample picks a class of pods and some nodes from a replica.
func sample(full *contractv1.Delta) (class uint32, nodes []uint32) {
	found := false
	for _, op := range full.GetOperations() {
		if n := op.GetNodeSet(); n != nil && len(nodes) < trialNodes {
			nodes = append(nodes, n.GetIndex())
		}
		if c := op.GetClassSet(); c != nil {
			class, found = c.GetClass(), true
		}
	}
	if !found {
		return 0, nil
	}
	return class, nodes
}

// trial asks one question. An answer that is an error is an answer; a guest that
// breaks is none.
func (u *unit) trial(ctx context.Context, e *manifest.Entry, class uint32, nodes []uint32) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.guest == nil {
		return u.brokeEarly()
	}
	if u.catching != nil {
		return nil // fed again: the cycle finds out
	}
	u.asking = unhurried(ctx) // the scheduler feeds it
	defer u.asked()
	g := u.guest
	err := u.drain(ctx)
	if err != nil {
		return err
	}
	switch i := u.index[e.Name]; e.Kind {
	case sdk.KindPredicate:
		err = g.Filter(ctx, i, class, nodes, make([]uint32, len(nodes)))
	case sdk.KindPriority:
		err = g.Score(ctx, i, class, nodes, make([]int64, len(nodes)))
	}
	if errors.Is(err, guest.ErrBroken) {
		if u.guest == g {
			u.broke(err)
		}
		return err
	}
	return nil
}

// reconfigure waits until guests have their changed configuration: the scheduler
// has them take it between two decisions. Where no cycle runs, or it does not
// come round, they take it now.
func (h *Host) reconfigure(next *plan, list []*reconfiguration) error {
	if len(list) == 0 {
		return nil
	}
	patience := retireAfter
	if h.source() == nil || slices.Contains(next.cfg.Silent, sdk.KindPredicate) || len(next.cfg.Profiles) == 0 {
		patience = 0
	}
	wait, cancel := context.WithTimeout(h.ctx, patience)
	defer cancel()
	var fault error
	for _, r := range list {
		if !r.scheduling() {
			fault = errors.Join(fault, h.force(r))
			continue
		}
		select {
		case <-r.done:
			fault = errors.Join(fault, r.err)
		case <-wait.Done():
			if fault == nil {
				fault = h.force(r)
			}
		}
		if fault != nil {
			break
		}
	}
	if fault == nil {
		return nil
	}
	for _, r := range list {
		r.abandon(fault)
		if r.err == nil {
			// It took what another plugin of the change refused.
			r.undo()
		}
	}
	return fault
}

// force has a guest take its configuration as soon as it is not being fed.
func (h *Host) force(r *reconfiguration) error {
	for {
		r.mu.Lock() // whoever is at it waits for the guest as long
		over, fed := r.attemptLocked(unhurried(h.ctx))
		err := r.err
		r.mu.Unlock()
		if over {
			r.unit.changed() // the scheduler may have asked meanwhile
			return err
		}
		select {
		case <-fed:
		case <-h.ctx.Done():
			return context.Cause(h.ctx)
		}
	}
}

// takeBack gives the scheduler the former profiles again, as new policies: what
// was answered meanwhile may have been with a configuration that is no more.
func (h *Host) takeBack(before *plan) {
	policies, err := h.policies(before, nil)
	if err != nil {
		h.log.Error("scheduler profiles are without plugins until they are changed again", "error", err)
	}
	h.turn(policies)
}

// commit puts a plan in force and ends the units that it does not take.
func (h *Host) commit(next *plan, gone []*unit) {
	h.mu.Lock()
	for _, u := range next.units {
		if old := namesake(h.plan.units, u); old != nil && old != u {
			h.remember(h.plan, old, u)
		}
	}
	h.plan = next
	h.configured++
	h.retiring = append(h.retiring, gone...)
	h.mu.Unlock()
	h.tellSplits(next)
	h.pokeState()
	signal(h.objects.told) // whoever changed the configuration waits for its objects
	if len(gone) == 0 {
		return
	}
	h.retire.Go(func() {
		h.turned()
		for _, u := range gone {
			h.end(u)
		}
		h.mu.Lock()
		h.retiring = slices.DeleteFunc(h.retiring, func(u *unit) bool { return slices.Contains(gone, u) })
		h.release(gone)
		h.mu.Unlock()
		h.pokeState() // controllers of the new unit may start
	})
}

// release gives up the identities of units that run no more; one that runs again
// gets a new one. mu is held.
func (h *Host) release(gone []*unit) {
	if h.deps.Release == nil {
		return
	}
	kept := map[string]bool{}
	for _, u := range h.plan.units {
		if !u.active {
			continue
		}
		for _, name := range u.identities() {
			kept[name] = true
		}
	}
	for _, u := range gone {
		for _, name := range u.identities() {
			if !kept[name] {
				h.deps.Release(name)
			}
		}
	}
}

// identities are the names by which the API may know the unit.
func (u *unit) identities() []string {
	names := []string{u.bundle.Manifest.Name}
	for i := range u.bundle.Manifest.Plugins {
		names = append(names, u.bundle.Manifest.Plugins[i].Name)
	}
	return names
}

// turned waits until the scheduler may no longer be in a decision with a policy
// that was replaced.
func (h *Host) turned() {
	limit := time.NewTimer(retireAfter)
	defer limit.Stop()
	h.sourceMu.Lock()
	sources := make([]*Source, 0, len(h.sources))
	for _, s := range h.sources {
		sources = append(sources, s)
	}
	h.sourceMu.Unlock()
	for _, s := range sources {
		for p := s.policy.Load(); p != nil; p = s.policy.Load() {
			used := false
			select {
			case <-p.inUse:
				used = true
			case <-p.replaced:
			case <-limit.C:
				return
			case <-h.ctx.Done():
				return
			}
			if used {
				break
			}
		}
	}
}
