package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

// drive is a load on a bare store, without an API. It runs in a process of its
// own, storedrive_test.go, since this program is a black box over the product
// and Pintle's store is a library.
type drive struct {
	// Engine is pintle (Target: a data directory) or etcd (Target: a URL).
	Engine, Target string
	// Connections to etcd that writers and watchers share out.
	Connections       int
	Writers, Watchers int
	// Rate of all writers together, a second; 0: as fast as they go.
	Rate    int
	Seconds float64
	// Bytes of a value.
	Bytes int
	// Out is the file that receives the outcome.
	Out string
}

// driven is the outcome of a drive: every write was found by a new reader.
type driven struct {
	Writes        int
	WritesASecond float64
	Write         spread
	// Expected deliveries are writes times watchers.
	Expected, Delivered int
	// Delivery is from before the write was handed over to a watcher's having
	// it: the commit itself is part of it.
	Delivery spread
}

// spread sums up durations, in milliseconds.
type spread struct{ Mean, P50, P99, Max float64 }

// spreadOf sorts what it is given.
func spreadOf(all []time.Duration) spread {
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	ms := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
	return spread{
		Mean: ms(sum) / float64(len(all)), P50: ms(all[len(all)/2]), P99: ms(all[len(all)*99/100]), Max: ms(all[len(all)-1]),
	}
}

// buildDriver compiles the driver into dir.
func buildDriver(ctx context.Context, dir string) (string, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "drive")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./e2e/bench")
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile the driver: %w\n%s", err, out)
	}
	return program, nil
}

// by runs the drive in the compiled driver.
func (d drive) by(ctx context.Context, program string) (out driven, err error) {
	d.Out = program + ".json"
	defer os.Remove(d.Out)
	if err := drivenBy(ctx, program, "", "TestDrive", "PINTLE_DRIVE", d, d.Out, &out); err != nil {
		return out, fmt.Errorf("drive %s: %w", d.Engine, err)
	}
	return out, nil
}
