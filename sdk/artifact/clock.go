package artifact

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Clocked is an Artifact whose plugins are given the time: a module, and what the
// caller's own process has. A process reads the clock of the machine.
type Clocked interface {
	// At has it be a time, from the next question on.
	At(t time.Time)
}

// Expirer is an Artifact with plugins whose answers end with time.
type Expirer interface {
	// Until is when the answers of a plugin to the last question end; zero: time does
	// not end them. Only of plugins that are described with expires.
	Until(ctx context.Context, plugin int) (time.Time, error)
}

var (
	_ Clocked = (*instance)(nil)
	_ Clocked = (*source)(nil)
	_ Expirer = (*instance)(nil)
	_ Expirer = (*source)(nil)
	_ Expirer = (*Process)(nil)
)

// At implements Clocked.
func (i *instance) At(t time.Time) { i.time = t }

// walltime is the clock that the module has.
func (i *instance) walltime() (seconds int64, nanoseconds int32) {
	t := i.time
	if t.IsZero() {
		t = time.Now()
	}
	return t.Unix(), int32(t.Nanosecond())
}

// Until implements Expirer.
func (i *instance) Until(ctx context.Context, plugin int) (time.Time, error) {
	if i.calls["pintle_until"] == nil {
		return time.Time{}, errors.New("the module exports no pintle_until (see sdk/ABI.md)")
	}
	until, err := i.call(ctx, "pintle_until", uint64(uint32(plugin)))
	if err != nil {
		return time.Time{}, err
	}
	if int64(until) < 0 {
		return time.Time{}, i.answered(ctx, "pintle_until", until)
	}
	return ended(int64(until))
}

// At implements Clocked.
func (s *source) At(t time.Time) { s.guest.SetClock(func() time.Time { return t }) }

// Until implements Expirer.
func (s *source) Until(_ context.Context, plugin int) (time.Time, error) {
	until, err := s.guest.Until(plugin)
	if err != nil {
		return time.Time{}, refused(err)
	}
	return ended(until)
}

// Until implements Expirer.
func (p *Process) Until(context.Context, int) (time.Time, error) { return ended(p.until) }

func ended(milliseconds int64) (time.Time, error) {
	switch {
	case milliseconds == 0:
		return time.Time{}, nil
	case milliseconds < 0:
		return time.Time{}, fmt.Errorf("answers until %d", milliseconds)
	}
	return time.UnixMilli(milliseconds), nil
}
