package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// Reasons of the condition Accepted.
const (
	reasonAccepted    = "InForce"
	reasonInvalid     = "Invalid"
	reasonStartFailed = "StartFailed"
)

// objects are the Plugin objects as the host last saw them.
type objects struct {
	// mu is held while an object's spec is written, too, so that nobody takes
	// the host's own change for somebody's.
	mu    sync.Mutex
	seen  map[string]*tracked
	store func() []*v1alpha1.Plugin // what the watch has
	// changed is signalled when the watch saw something, told when it was acted upon.
	changed, told chan struct{}
}

func (o *objects) init() {
	o.seen = map[string]*tracked{}
	o.changed, o.told = make(chan struct{}, 1), make(chan struct{}, 1)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tracked is one object. It is changed with objects.mu held.
type tracked struct {
	known *v1alpha1.Plugin
	// settled is the object that was last acted upon: its spec is in force, or
	// refusal says why not.
	settled *v1alpha1.Plugin
	refusal *refusal
	watched bool // the watch has seen it
	// encoded is the spec of the object encodedOf, as JSON.
	encoded   []byte
	encodedOf *v1alpha1.Plugin
}

// refusal is why a spec is not in force.
type refusal struct {
	reason, message string
	// again: what it depends on may change by itself.
	again bool
}

// change is a Plugin object that is another than it was: old is nil for one that
// was not known, now for one that was deleted.
type change struct {
	name     string
	old, now *v1alpha1.Plugin
}

// with returns the wishes after a change.
func (w *wishes) with(p *plan, c change) *wishes {
	next := w.clone()
	o := cmp.Or(c.now, c.old)
	bundle := o.Spec.Bundle
	if c.now == nil {
		delete(next.objects, c.name)
		if p.specs[c.name] != nil {
			delete(next.wide, bundle)
		}
		return next
	}
	if next.objects == nil {
		next.objects = map[string]*v1alpha1.Plugin{}
	}
	next.objects[c.name] = c.now
	configured, ok := p.seeds[c.name]
	if !ok {
		configured = fields{}
	}
	before, after := configured, merge(configured, c.now)
	if c.old != nil {
		before, after = fieldsOf(&c.old.Spec), fieldsOf(&c.now.Spec)
	}
	after = loosened(before, after)
	for _, name := range wideFields {
		if before.same(after, name) {
			continue
		}
		if next.wide[bundle] == nil {
			next.wide[bundle] = fields{}
			for _, name := range wideFields {
				next.wide[bundle].put(name, configured[name])
			}
		}
		next.wide[bundle].put(name, after[name])
	}
	return next
}

// loosened drops a digest that was that of another version: who changes the
// version alone does not mean the former build.
func loosened(before, after fields) fields {
	if !before.same(after, "version") && before.same(after, "digest") {
		after = maps.Clone(after)
		delete(after, "digest")
	}
	return after
}

// adopt reads the objects of the store, and lets them count before anything is
// asked. applyMu is held; the units of the configuration file are starting.
func (h *Host) adopt(ctx context.Context, api *publisher) error {
	list, err := api.await(ctx)
	if err != nil {
		return err
	}
	before := h.present()
	h.objects.mu.Lock()
	for i := range list {
		o := &list[i]
		h.objects.seen[o.Name] = &tracked{known: o}
		h.previous.Read(o)
	}
	changes := h.objects.changes(nil)
	h.objects.mu.Unlock()
	changes = h.own(changes)
	// Of a bundle's plugins that differ the one written last counts.
	slices.SortStableFunc(changes, func(a, b change) int { return compareVersions(a.now, b.now) })
	p, refusals := h.lay(before, changes, nil)
	for i, u := range p.units {
		if !slices.Contains(before.units, u) {
			continue
		}
		// One that is starting with another configuration is started anew: it is
		// known then whether it takes this one.
		bc, former := p.configs[u], before.configs[u]
		if changed, _ := changedConfigs(&former, &bc); len(changed) > 0 {
			fresh, err := h.resolveUnit(&p.cfg, bc)
			if err != nil {
				return err
			}
			fresh.active = u.active
			delete(p.configs, u)
			p.units[i], p.configs[fresh] = fresh, bc
		}
	}
	for _, u := range p.units {
		if u.active && !slices.Contains(before.units, u) {
			h.launch(h.ctx, u)
		}
	}
	h.replaceAtStart(p)
	h.settleObjects(changes, refusals)
	return nil
}

// replaceAtStart puts a plan in force before the scheduler has asked anything.
func (h *Host) replaceAtStart(p *plan) {
	before := h.present()
	h.mu.Lock()
	h.plan = p
	h.mu.Unlock()
	for _, u := range before.units {
		if !slices.Contains(p.units, u) {
			h.retire.Go(func() { h.end(u) })
		}
	}
}

// lay lays changes over a plan: all of them, or else each that can be. try, if
// not nil, turns to a plan that was made.
func (h *Host) lay(before *plan, changes []change, try func(*plan) error) (*plan, map[string]*refusal) {
	refusals := map[string]*refusal{}
	step := func(p *plan, changes []change) (*plan, error) {
		changes, err := h.rolledBack(changes)
		if err != nil {
			return nil, err
		}
		w := p.wishes
		for _, c := range changes {
			w = w.with(p, c)
		}
		if err := h.vet(p, w, changes); err != nil {
			return nil, err
		}
		next, err := h.newPlan(p.base, w, p)
		if err == nil {
			err = next.unheld(changes)
		}
		if err == nil {
			err = next.unmet(changes)
		}
		if err == nil && try != nil {
			err = try(next)
		}
		return next, err
	}
	if len(changes) > 1 {
		if next, err := step(before, changes); err == nil {
			return next, refusals
		}
	}
	p := before
	for _, c := range changes {
		next, err := step(p, []change{c})
		if err != nil {
			refusals[c.name] = refusalOf(err)
			continue
		}
		p = next
	}
	return p, refusals
}

// unmet finds admission plugins that changes ask for and that a plan does not have.
func (p *plan) unmet(changes []change) error {
	for _, c := range changes {
		if asksForReview(c.now) && p.specs[c.name] == nil {
			return fmt.Errorf("plugin %s: its bundle %s is not loaded", c.name, c.now.Spec.Bundle)
		}
	}
	return nil
}

func refusalOf(err error) *refusal {
	var start startError
	if errors.As(err, &start) {
		return &refusal{reason: reasonStartFailed, message: err.Error()}
	}
	return &refusal{reason: reasonInvalid, message: err.Error(), again: true}
}

// healthy is the plan as far as its units have not failed for good.
func (p *plan) healthy() *plan {
	out := &plan{configs: maps.Clone(p.configs)}
	for _, u := range p.units {
		u.stateMu.Lock()
		failed := u.fault != nil
		u.stateMu.Unlock()
		if failed {
			delete(out.configs, u)
		} else {
			out.units = append(out.units, u)
		}
	}
	return out
}

func fieldsEqual(a, b fields) bool {
	return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return string(x) == string(y) })
}

// changes lists what is not acted upon yet. list is what the watch has; with nil
// it is what is known. mu is held.
func (o *objects) changes(list []*v1alpha1.Plugin) []change {
	if list != nil {
		there := map[string]bool{}
		for _, now := range list {
			there[now.Name] = true
			t := o.seen[now.Name]
			if t == nil || t.known == nil {
				o.seen[now.Name] = &tracked{known: now}
			} else if t.known.UID != now.UID || compareVersions(t.known, now) < 0 {
				t.known = now
			}
		}
		for name, t := range o.seen {
			// The watch may be behind what the host itself has made.
			if !there[name] && t.known != nil && t.watched {
				t.known = nil
			}
		}
		for _, now := range list {
			o.seen[now.Name].watched = true
		}
	}
	var out []change
	for _, name := range slices.Sorted(maps.Keys(o.seen)) {
		t := o.seen[name]
		switch {
		case t.known == nil:
			out = append(out, change{name: name, old: t.settled})
		case t.settled == nil || t.settled.UID != t.known.UID || t.settled.Generation != t.known.Generation ||
			t.settled.Annotations[v1alpha1.ConfiguredAnnotation] != t.known.Annotations[v1alpha1.ConfiguredAnnotation]:
			out = append(out, change{name: name, old: t.settled, now: t.known})
		default:
			t.settled = t.known // the status alone is another
		}
	}
	return out
}

// compareVersions orders two states of objects by when they were written.
func compareVersions(a, b *v1alpha1.Plugin) int {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	if errX != nil || errY != nil {
		return -1 // take the other
	}
	return cmp.Compare(x, y)
}

// settleObjects notes which changes were acted upon, and how.
func (h *Host) settleObjects(changes []change, refusals map[string]*refusal) {
	h.objects.mu.Lock()
	for _, c := range changes {
		if c.now == nil {
			if t := h.objects.seen[c.name]; t != nil && t.known == nil {
				delete(h.objects.seen, c.name)
			}
			continue
		}
		t := h.objects.seen[c.name]
		if t == nil {
			continue
		}
		t.settled, t.refusal = c.now, refusals[c.name]
	}
	h.objects.mu.Unlock()
	for name, r := range refusals {
		h.log.Warn("the spec of a Plugin object is not in force", "object", name, "reason", r.reason, "error", r.message)
	}
	h.renewAdmissions()
	signal(h.objects.told)
}

// retryEvery is how often specs that are not in force are tried again, for what
// they lack may have come.
const retryEvery = 10 * time.Second

// follow acts upon changes of Plugin objects until ctx ends.
func (h *Host) follow(ctx context.Context, api *publisher) {
	h.group.Go(func() { api.watch(ctx, &h.objects) })
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.objects.changed:
			h.observe()
		case <-tick.C:
			h.applyMu.Lock()
			h.retry()
			h.applyMu.Unlock()
		}
	}
}

// observe acts upon what the watch saw.
func (h *Host) observe() {
	h.applyMu.Lock()
	defer h.applyMu.Unlock()
	h.objects.mu.Lock()
	list := h.objects.store()
	changes := h.objects.changes(list)
	for i := range changes {
		// What was refused was never in force: a correction is compared with that.
		if t := h.objects.seen[changes[i].name]; t.refusal != nil && changes[i].old != nil {
			changes[i].old = h.inForce(changes[i].name)
		}
	}
	h.objects.mu.Unlock()
	changes = h.own(changes)
	if len(changes) == 0 {
		return
	}
	h.act(changes)
	h.retry()
}

// own leaves out what is said by objects that a host made, of plugins that are not
// loaded, and of those that another bundle has now. The former are on their way out,
// but for an admission plugin that somebody enabled, without which nothing passes; the
// latter are made what is in force.
func (h *Host) own(changes []change) []change {
	p := h.present()
	var out, rest []change
	for _, c := range changes {
		o := cmp.Or(c.now, c.old)
		if o == nil || p.specs[c.name] == nil && o.Labels[managedLabel] == managedByHost && !asksForReview(c.now) || c.now != nil && p.replaces(c.now) {
			rest = append(rest, c)
			continue
		}
		out = append(out, c)
	}
	h.settleObjects(rest, nil)
	if len(rest) > 0 {
		h.pokeState()
	}
	return out
}

// foreign reports whether an object speaks of another plugin than the one of its name
// that is loaded: that of another bundle, or of another kind.
func (p *plan) foreign(o *v1alpha1.Plugin) bool {
	spec := p.specs[o.Name]
	return spec != nil && (spec.Bundle != o.Spec.Bundle || spec.Kind != o.Spec.Kind)
}

// replaces reports whether a foreign object is made what is in force. Somebody's own is
// not, nor one that enables an admission plugin, if the one that is loaded is not in
// use: what it was to review would pass.
func (p *plan) replaces(o *v1alpha1.Plugin) bool {
	return p.foreign(o) && o.Labels[managedLabel] == managedByHost && (!asksForReview(o) || slices.Contains(p.cfg.Admission, o.Name))
}

// forget drops what is asked of plugins that a plan has from other bundles.
func (w *wishes) forget(p *plan) {
	maps.DeleteFunc(w.objects, func(_ string, o *v1alpha1.Plugin) bool { return p.replaces(o) })
}

// inForce is the spec in force of a plugin, as an object; nil if it is not loaded.
func (h *Host) inForce(name string) *v1alpha1.Plugin {
	spec := h.present().specs[name]
	if spec == nil {
		return nil
	}
	return &v1alpha1.Plugin{Spec: *spec}
}

// retry tries what was refused and may be possible now, and refuses what another
// bundle took the place of. applyMu is held.
func (h *Host) retry() {
	var changes []change
	p := h.present()
	h.objects.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(h.objects.seen)) {
		t := h.objects.seen[name]
		if t.known == nil || t.settled != t.known {
			continue
		}
		if t.refusal != nil && t.refusal.again || t.refusal == nil && p.foreign(t.known) {
			changes = append(changes, change{name: name, old: h.inForce(name), now: t.known})
		}
	}
	h.objects.mu.Unlock()
	if len(changes) == 0 {
		return
	}
	for _, c := range h.own(changes) {
		h.act([]change{c})
	}
}

// act turns to the plan that changes ask for, as far as it goes. applyMu is held.
func (h *Host) act(changes []change) {
	before := h.present()
	_, refusals := h.lay(before, changes, h.apply)
	h.settleObjects(changes, refusals)
	h.followBundle(changes, refusals)
	if h.present() != before {
		h.log.Info("plugin objects applied", "changed", changed(changes, refusals))
	}
	h.pokeState()
}

func changed(changes []change, refusals map[string]*refusal) string {
	text := ""
	for _, c := range changes {
		if refusals[c.name] != nil {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += c.name
	}
	return text
}
