package parts

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A part's fault is said once: by failed, not again by stop, whether the part
// names itself or not, and not by what clears up after it.
func TestFaultIsSaidOnce(t *testing.T) {
	tests := []struct {
		name       string
		run, after error
		want, stop string
	}{
		{"fault", errors.New("boom"), nil, "x: boom", ""},
		{"names itself", errors.New("x: boom"), nil, "x: boom", ""},
		{"same fault again", errors.New("boom"), errors.New("boom"), "x: boom", ""},
		{"other fault", errors.New("boom"), errors.New("left over"), "x: boom", "x: left over"},
		{"no fault", nil, nil, "x: ended by itself", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := New(slog.New(slog.DiscardHandler))
			p.Start("x", func(context.Context) error { return tt.run }, func(context.Context) error { return tt.after })
			if err := <-p.Failed(); err.Error() != tt.want {
				t.Errorf("failed says %q, want %q", err, tt.want)
			}
			got := ""
			if err := p.Stop(); err != nil {
				got = err.Error()
			}
			if got != tt.stop {
				t.Errorf("stop says %q, want %q", got, tt.stop)
			}
		})
	}
}

// Parts stop in reverse; a fault of the stop itself is said.
func TestPartsStopInReverse(t *testing.T) {
	p := New(slog.New(slog.DiscardHandler))
	var order []string
	for _, name := range []string{"a", "b", "c"} {
		p.Start(name, func(ctx context.Context) error {
			<-ctx.Done()
			order = append(order, name)
			if name == "b" {
				return errors.New("stuck")
			}
			return ctx.Err()
		}, nil)
	}
	if err := p.Stop(); err == nil || err.Error() != "b: stuck" {
		t.Errorf("stop says %v", err)
	}
	if len(order) != 3 || order[0] != "c" || order[2] != "a" {
		t.Errorf("stopped %v", order)
	}
}

// A part with a limit of its own may take that long to end, and what clears up after it runs then. One that takes longer
// is named and left behind.
func TestPartsWaitForTheirLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, takes time.Duration
		cleared      bool
	}{
		"at once":             {StopTimeout, 0, true},
		"within its limit":    {3 * StopTimeout, 2 * StopTimeout, true},
		"beyond its limit":    {3 * StopTimeout, 4 * StopTimeout, false},
		"a short one for it":  {time.Second, StopTimeout / 2, true},
		"beyond the common's": {time.Second, 2 * StopTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(slog.New(slog.DiscardHandler))
				cleared := false
				p.StartWithin("x", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(tt.takes)
					return nil
				}, func(context.Context) error {
					cleared = true
					return nil
				}, tt.limit)
				if err := p.Stop(); (err == nil) != tt.cleared || cleared != tt.cleared {
					t.Errorf("%v, cleared %t", err, cleared)
				}
				time.Sleep(tt.takes) // the one that was left behind ends
			})
		})
	}
}
