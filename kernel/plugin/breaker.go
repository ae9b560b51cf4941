package plugin

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// A plugin that fails so often within the window is not asked for a while.
	breakFailures, breakWindow = 5, 30 * time.Second
	// So is one that takes at least this share of its deadline so many times in a
	// row: it never misses it, and every cycle waits for it.
	breakSlow, slowPercent = 10, 80
	// The first pause; each further one is twice as long, until the plugin has
	// done well for the time of guest.SettledAfter.
	firstPause, lastPause = 5 * time.Second, time.Minute
)

// errOpen marks the error of a plugin that is not asked.
var errOpen = errors.New("is not asked for now")

// breaker is the circuit of one plugin: closed while it is asked; open, after
// failures, while it is not; half open while one question tries it.
type breaker struct {
	mu       sync.Mutex
	failures [breakFailures]time.Time // the last ones, a ring
	next     int
	slow     int // calls in a row
	state    v1alpha1.PluginCircuit
	until    time.Time // open
	since    time.Time // closed again
	pause    time.Duration
	why      string
	wake     *time.Timer
	// stirred: it is not closed, or the last call was slow. Nobody needs mu to hear
	// that it is not.
	stirred atomic.Bool
}

// admit reports whether the plugin may be asked now. The first question after a
// pause is the one that tries it.
func (b *breaker) admit(now time.Time) error {
	if !b.stirred.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != v1alpha1.PluginCircuitOpen {
		return nil
	}
	if now.Before(b.until) {
		return fmt.Errorf("%w: %s", errOpen, b.why)
	}
	b.state = v1alpha1.PluginCircuitHalfOpen
	return nil
}

// slow reports whether a call took most of what it has.
func slow(took, deadline time.Duration) bool { return took*100 >= deadline*slowPercent }

// note takes in how a question went and reports whether the circuit opened or
// closed by it. wake is called when the pause of one that opened is over.
func (b *breaker) note(now time.Time, took, deadline time.Duration, err error, wake func()) bool {
	slow := slow(took, deadline)
	if err == nil && !slow && !b.stirred.Load() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.stirred.Store(b.state != "" && b.state != v1alpha1.PluginCircuitClosed || b.slow > 0) }()
	if err == nil && !slow {
		b.slow = 0
		if b.state != v1alpha1.PluginCircuitHalfOpen {
			return false
		}
		b.state, b.since, b.why, b.failures = v1alpha1.PluginCircuitClosed, now, "", [breakFailures]time.Time{}
		return true
	}
	why := ""
	if err != nil {
		b.failures[b.next] = now
		b.next = (b.next + 1) % breakFailures
		if first := b.failures[b.next]; !first.IsZero() && now.Sub(first) <= breakWindow {
			why = fmt.Sprintf("it failed %d times within %s, the last time: %v", breakFailures, breakWindow, err)
		} else if b.state == v1alpha1.PluginCircuitHalfOpen {
			why = fmt.Sprintf("it failed again: %v", err)
		}
	} else if b.slow++; b.state == v1alpha1.PluginCircuitHalfOpen {
		why = fmt.Sprintf("it is still slow: %s of the %s that it has", took.Round(time.Millisecond), deadline)
	} else if b.slow >= breakSlow {
		why = fmt.Sprintf("it took %s or more of the %s that it has, %d times in a row", deadline*slowPercent/100, deadline, breakSlow)
		b.slow = 0
	}
	if why == "" {
		return false
	}
	switch {
	case b.pause == 0 || b.state != v1alpha1.PluginCircuitHalfOpen && now.Sub(b.since) > guest.SettledAfter:
		b.pause = firstPause
	default:
		b.pause = min(2*b.pause, lastPause)
	}
	b.state, b.until, b.why = v1alpha1.PluginCircuitOpen, now.Add(b.pause), why
	b.stop()
	b.wake = time.AfterFunc(b.pause, wake)
	return true
}

// stop ends the wait for the end of the pause; mu is held.
func (b *breaker) stop() {
	if b.wake != nil {
		b.wake.Stop()
	}
}

// close ends everything.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
}

// report is the state, and while it is open why.
func (b *breaker) report(now time.Time) (v1alpha1.PluginCircuit, string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case v1alpha1.PluginCircuitOpen:
		if !now.Before(b.until) {
			return v1alpha1.PluginCircuitHalfOpen, "is asked again; before that " + b.why
		}
		return b.state, fmt.Sprintf("is not asked until %s: %s", b.until.UTC().Format(time.TimeOnly), b.why)
	case v1alpha1.PluginCircuitHalfOpen:
		return b.state, "is asked again; before that " + b.why
	}
	return v1alpha1.PluginCircuitClosed, ""
}

// admit reports whether a plugin of the unit may be asked.
func (u *unit) admit(name string, now time.Time) error {
	return u.counted(name).admit(name, now)
}

// admit reports whether the plugin of a name may be asked.
func (s *stats) admit(name string, now time.Time) error {
	if err := s.circuit.admit(now); err != nil {
		return fmt.Errorf("plugin %s %w", guest.PluginOf(name), err)
	}
	return nil
}

// note counts one question to a plugin of the unit, and opens or closes its
// circuit. The cycle waited for whole: for what the guest was handed, too.
func (u *unit) note(name string, now time.Time, took, whole time.Duration, err error) {
	u.noteOf(u.counted(name), name, now, took, whole, err)
}

// noteOf is note with the plugin's record at hand.
func (u *unit) noteOf(s *stats, name string, now time.Time, took, whole time.Duration, err error) {
	s.record(took, err)
	if !s.circuit.note(now, whole, u.call, err, u.changed) {
		return
	}
	state, why := s.circuit.report(now)
	if state == v1alpha1.PluginCircuitOpen {
		u.log.Warn("plugin "+why, "name", name)
	} else {
		u.log.Info("plugin is asked as before", "name", name)
	}
	u.changed()
}
