package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pintle.dev/pintle/e2e/bench/rig"
)

// outcome is what one proxy reached in its rounds.
type outcome struct {
	sync, p50, p99, resident, anonymous []float64
}

// syncFigures are those of loading many services, of changing one, and of memory.
func (o options) syncFigures(ctx context.Context) ([]rig.Figure, error) {
	names := []string{"nftables", "iptables"}
	if o.alone {
		names = names[:1]
	}
	got, missing := map[string]*outcome{}, map[string]string{}
	var failed error
	for round := range o.rounds {
		for _, name := range names {
			if got[name] == nil {
				got[name] = &outcome{}
			}
			fmt.Printf("  %s round %d: %s\n", time.Now().Format(time.TimeOnly), round+1, name)
			err := o.measure(ctx, name, got[name])
			switch {
			case err == nil:
			case name == names[0]:
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			default: // what the other one cannot do is a result
				fmt.Println("   ", err)
				missing[name] = strings.TrimSpace(err.Error())
			}
		}
	}
	return o.figures(got, missing), failed
}

// measure has one proxy do everything once.
func (o options) measure(ctx context.Context, name string, out *outcome) error {
	c, err := startChild(ctx, o.program, name)
	if err != nil {
		return err
	}
	err = o.drive(c, name, out)
	return errors.Join(err, c.stop())
}

func (o options) drive(c *child, name string, out *outcome) error {
	loaded, err := c.apply(everything(o.services, o.endpoints))
	if err != nil {
		return err
	}
	changes := o.changes
	if name == "iptables" {
		changes = max(1, changes/20)
	}
	took := make([]float64, 0, changes)
	for i := range changes {
		// Services far from each other, each to and fro.
		service := (i * 7919) % o.services
		diff := everything(0, 0)
		diff.Generation, diff.Reset_ = uint64(i+2), false
		diff.Changes = append(diff.Changes, endpointsOf(service, o.endpoints, i/o.services+1))
		seconds, err := c.apply(diff)
		if err != nil {
			return err
		}
		took = append(took, seconds*1000)
	}
	slices.Sort(took)
	weight, err := rig.Measure(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	out.sync, out.p50, out.p99 = append(out.sync, loaded), append(out.p50, took[len(took)/2]), append(out.p99, took[len(took)*99/100])
	out.resident, out.anonymous = append(out.resident, rig.MB(weight.RSS)), append(out.anonymous, rig.MB(weight.Anonymous))
	return nil
}

// figures are those of nftables with its goals, beside iptables where that was measured.
func (o options) figures(got map[string]*outcome, missing map[string]string) []rig.Figure {
	ours := got["nftables"]
	if len(ours.sync) == 0 {
		return nil
	}
	size := fmt.Sprintf("%d services × %d endpoints", o.services, o.endpoints)
	rows := []struct {
		name, unit string
		goal       float64
		of         func(*outcome) []float64
	}{
		{"full sync, " + size, "s", 2, func(o *outcome) []float64 { return o.sync }},
		{"one endpoint changes, p99", "ms", 20, func(o *outcome) []float64 { return o.p99 }},
		{"one endpoint changes, median", "ms", 0, func(o *outcome) []float64 { return o.p50 }},
		{"memory of the proxy, resident", "MB", 60, func(o *outcome) []float64 { return o.resident }},
		{"of it anonymous", "MB", 0, func(o *outcome) []float64 { return o.anonymous }},
	}
	var out []rig.Figure
	for _, r := range rows {
		f := rig.Most(r.name, r.unit, r.goal, r.of(ours)...)
		if theirs := got["iptables"]; theirs != nil && len(r.of(theirs)) > 0 {
			f = f.With("iptables: %.1f %s", slices.Min(r.of(theirs)), r.unit)
		} else if why := missing["iptables"]; why != "" {
			f = f.With("iptables fails: %s", why)
		}
		out = append(out, f)
	}
	return out
}
