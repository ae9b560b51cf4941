package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// parseConfigs splits a bundle's configuration, an object with a key a plugin.
func parseConfigs(bc *BundleConfig) (map[string]json.RawMessage, error) {
	if len(bc.Config) == 0 || string(bc.Config) == "null" {
		return nil, nil
	}
	var configs map[string]json.RawMessage
	if err := json.Unmarshal(bc.Config, &configs); err != nil {
		return nil, fmt.Errorf("plugin bundle %s: config: want an object with a key a plugin: %w", bc.Name, err)
	}
	return configs, nil
}

// configureAll hands a new guest the unit's configuration and returns which
// revision of it that was.
func (u *unit) configureAll(ctx context.Context, g guest.Guest, index map[string]int) (revision uint64, err error) {
	u.mu.Lock()
	bc, revision := u.config, u.revision
	u.mu.Unlock()
	configs, err := parseConfigs(&bc)
	if err != nil {
		return 0, fmt.Errorf("plugin bundle %s: %w: %w", bc.Name, guest.ErrPermanent, err)
	}
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if _, ok := index[guest.PluginOf(name)]; !ok {
			return 0, fmt.Errorf("plugin bundle %s: %w: config: it has no plugin %s; there are: %s",
				bc.Name, guest.ErrPermanent, name, strings.Join(slices.Sorted(maps.Keys(index)), ", "))
		}
		i, err := u.position(ctx, g, index, name)
		if err != nil {
			if errors.Is(err, guest.ErrBroken) {
				return 0, err
			}
			return 0, fmt.Errorf("plugin bundle %s: %w: %w", bc.Name, guest.ErrPermanent, err)
		}
		if err := g.Configure(ctx, i, configs[name]); err != nil {
			if errors.Is(err, guest.ErrBroken) {
				return 0, err
			}
			return 0, fmt.Errorf("plugin bundle %s: %w: %w", bc.Name, guest.ErrPermanent, err)
		}
	}
	return revision, nil
}

// changedConfigs lists the plugins whose configuration is another in next; ok
// is false when one has none any more, which only a new guest can be told.
func changedConfigs(old, next *BundleConfig) (changed map[string]json.RawMessage, ok bool) {
	before, err := parseConfigs(old)
	if err != nil {
		return nil, false
	}
	after, err := parseConfigs(next)
	if err != nil {
		return nil, false
	}
	for name := range before {
		// An instance whose profile needs it no more is left alone.
		if _, still := after[name]; !still && guest.PluginOf(name) == name {
			return nil, false
		}
	}
	changed = map[string]json.RawMessage{}
	for name, config := range after {
		if !sameJSON(before[name], config) {
			changed[name] = config
		}
	}
	return changed, true
}

func sameJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return string(canonical(a)) == string(canonical(b))
}

// reconfiguration is a changed configuration that a running guest takes between
// two decisions.
type reconfiguration struct {
	unit    *unit
	next    BundleConfig
	former  BundleConfig
	changed map[string]json.RawMessage
	// claimed: a policy asks the guest.
	claimed bool

	mu    sync.Mutex
	to    guest.Guest // has the changes that were given
	given []string    // plugins that took theirs
	over  bool
	err   error         // why the plugin did not take it; the former one is in force
	done  chan struct{} // closed when it is over
}

func newReconfiguration(u *unit, next BundleConfig, changed map[string]json.RawMessage) *reconfiguration {
	return &reconfiguration{unit: u, next: next, changed: changed, done: make(chan struct{})}
}

// attempt reports whether it is over. The caller knows that no decision is
// under way; where it can do something else it is told when the guest takes its time.
// A guest that is being fed, or that another caller is waiting for, is asked again
// later.
func (r *reconfiguration) attempt(ctx context.Context) bool {
	if !r.mu.TryLock() {
		r.unit.mu.Lock()
		defer r.unit.mu.Unlock()
		r.unit.missed = true
		return false
	}
	defer r.mu.Unlock()
	over, _ := r.attemptLocked(ctx)
	return over
}

// settled reports whether it is over, without an attempt.
func (r *reconfiguration) settled() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// attemptLocked is attempt with mu held; fed is closed when the guest was fed.
func (r *reconfiguration) attemptLocked(ctx context.Context) (over bool, fed <-chan struct{}) {
	if r.over {
		return true, nil
	}
	u := r.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.guest != nil && u.catching != nil {
		u.missed = true // tell who asked
		return false, u.catching
	}
	u.asking = ctx
	defer u.asked()
	if r.err = r.give(); r.err == nil && len(r.given) < len(r.changed) && u.guest != nil {
		return false, nil // the others when who asks has its turn again
	}
	if r.err == nil {
		r.former = u.config
		u.config, u.revision = r.next, u.revision+1
		if u.guest != nil {
			u.adopted = u.revision
		}
	}
	r.over = true
	close(r.done)
	return true, nil
}

// give hands the changes to the guest, and takes them back when it does not
// take one of them. It ends behind one that was late where another caller had its turn
// meanwhile. Both locks are held.
func (r *reconfiguration) give() error {
	u := r.unit
	g := u.guest
	if g == nil {
		return nil // it starts with the new one
	}
	if r.to != g {
		r.to, r.given = g, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), u.call*feedFactor)
	defer cancel()
	former, _ := parseConfigs(&u.config)
	for _, name := range slices.Sorted(maps.Keys(r.changed)) {
		if slices.Contains(r.given, name) {
			continue
		}
		if u.asking.Err() == error(contractv1.Overtaken{}) {
			return nil
		}
		i, err := u.position(ctx, g, u.index, name)
		if err == nil {
			err = g.Configure(ctx, i, r.changed[name])
		}
		if u.guest != g {
			return nil // it was late, and others took it out of service
		}
		r.given = append(r.given, name)
		if err == nil {
			continue
		}
		if errors.Is(err, guest.ErrBroken) {
			u.broke(err)
			return err
		}
		for _, name := range r.given {
			if len(former[name]) == 0 && guest.PluginOf(name) != name {
				continue // an instance that no policy asks
			}
			if len(former[name]) == 0 {
				u.broke(fmt.Errorf("started again without a configuration that plugin %s refused", name))
				break
			}
			again := g.Configure(ctx, u.index[name], former[name])
			if u.guest != g {
				break
			}
			if again != nil {
				u.broke(again)
				break
			}
		}
		return err
	}
	return nil
}

// wait returns how it ended.
func (r *reconfiguration) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// abandon takes back what is not over, so that nothing changes any more.
func (r *reconfiguration) abandon(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over, r.err = true, err
	close(r.done)
	if len(r.given) == 0 {
		return
	}
	u := r.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.guest == r.to && u.guest != nil {
		u.broke(errTakenBack)
	}
}

// scheduling reports whether the scheduler asks the unit's plugins, so that only
// it knows when no decision is under way.
func (r *reconfiguration) scheduling() bool {
	return slices.ContainsFunc(r.unit.bundle.Manifest.Plugins, func(e manifest.Entry) bool {
		return sdk.SchedulingKind(e.Kind)
	})
}

var errTakenBack = errors.New("started again with its former configuration, as another plugin refused a change")

// undo gives the guest its former configuration.
func (r *reconfiguration) undo() {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.unit
	u.mu.Lock()
	defer u.mu.Unlock()
	u.config, u.revision = r.former, u.revision+1
	if u.guest != nil {
		u.broke(errTakenBack)
	}
}
