package plugin

import (
	"context"
	"errors"
	"fmt"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// restEvery is how many looks after a process lie between two whether it is used.
const restEvery = 10

// errUnused ends the watch of a guest that nothing uses.
var errUnused = errors.New("nothing uses it")

// unused reports whether nothing used the API servers of the unit for as long as its
// manifest says. They rest from then on.
func (u *unit) unused() bool {
	names := make([]string, 0, len(u.bundle.Manifest.Plugins))
	for i := range u.bundle.Manifest.Plugins {
		names = append(names, u.bundle.Manifest.Plugins[i].Name)
	}
	select {
	case <-u.wake: // of the last time
	default:
	}
	u.rests.Store(true)
	own := func(of any) bool { p, ok := of.(servingProcess); return ok && p.unit == u }
	if u.servers.Rest(names, u.idle, own, u.rouse) {
		return true
	}
	u.rests.Store(false)
	return false
}

// rouse has a unit that rests started; it does not wait.
func (u *unit) rouse() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// lie ends the process of a unit that nothing uses, and waits until something does or ctx
// ends.
func (u *unit) lie(ctx context.Context, g guest.Guest) {
	u.mu.Lock()
	u.down()
	u.returned()
	if err := g.Close(context.WithoutCancel(ctx), u.stop); err != nil {
		u.log.Warn("plugin bundle that nothing uses did not stop in order and was killed", "error", err)
	}
	u.setPID(0)
	u.set(v1alpha1.PluginStateIdle, fmt.Sprintf("nothing used it for %s: its process has ended, and the next request starts it", u.idle))
	u.log.Info("plugin bundle has ended until it is used", "unused", u.idle.String())
	u.changed()
	select {
	case <-u.wake:
	case <-ctx.Done():
	}
}
