package plugincmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/cmd/pintle/internal/cli"
	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// lookEvery is how often the running kernel is asked how far it is.
	lookEvery = 50 * time.Millisecond
	// followEvery is how often a kernel is looked for whose records are to be shown.
	followEvery = time.Second
)

// enforce waits until the running kernel has turned to a build, or has not, and
// says so of each plugin.
func (d *developer) enforce(ctx context.Context, got *catalog.Installed) error {
	client, err := (&cli.ConnectFlags{Data: d.data}).Plugins()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.enable.timeout)
	defer cancel()
	for _, name := range got.Plugins {
		o, err := turned(ctx, client, got, name)
		if err != nil {
			return fmt.Errorf("plugin dev: %s %s is installed and not in force: %w", got.Name, got.Version, err)
		}
		if d.enable.on && !ptr.Deref(o.Spec.Enabled, true) {
			if err := d.enable.enableOne(ctx, client, got, name, &cli.Progress{Out: io.Discard}); err != nil {
				return clusterCode("plugin dev: "+name+" is installed and not enabled", err)
			}
			if o, err = turned(ctx, client, got, name); err != nil {
				return fmt.Errorf("plugin dev: %w", err)
			}
		}
		text := fmt.Sprintf("%s is in force in version %s, %s %s", name, o.Status.Version, o.Status.Transport, o.Status.Digest)
		if !ptr.Deref(o.Spec.Enabled, true) {
			text = fmt.Sprintf("%s is loaded in version %s and not in use: pintle plugin enable %s", name, o.Status.Version, name)
		}
		if o.Status.Message != "" {
			text += "; " + o.Status.Message
		}
		d.say("%s", text)
	}
	d.enable.on = false // from now on it is the operator's to say
	return nil
}

// turned waits until a plugin of the running kernel is that of a build.
func turned(ctx context.Context, client *operate.Client, got *catalog.Installed, name string) (*v1alpha1.Plugin, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	last := "the kernel does not have it"
	for {
		o, err := client.Get(ctx, name)
		switch {
		case apierrors.IsNotFound(err):
		case ctx.Err() != nil:
		case err != nil:
			return nil, err
		case o.Spec.Bundle != got.Name:
			return nil, fmt.Errorf("plugin %s is of bundle %s in the running kernel; a name is given once", name, o.Spec.Bundle)
		case o.Spec.Digest != "" && !offers(got, o.Spec.Digest), o.Spec.Version != "" && o.Spec.Version != got.Version:
			return nil, fmt.Errorf("plugin %s is pinned to version %q, digest %q; to turn to what is installed: pintle plugin upgrade %s", name, o.Spec.Version, o.Spec.Digest, name)
		case !offers(got, o.Status.Digest):
			last = fmt.Sprintf("version %s (%s) is", o.Status.Version, o.Status.Digest)
			if o.Status.Message != "" {
				last += ": " + o.Status.Message
			}
		case o.Status.State.Serves(), o.Status.State == v1alpha1.PluginStateDisabled:
			return o, nil
		default:
			last = strings.TrimSuffix(fmt.Sprintf("it is %s: %s", o.Status.State, o.Status.Message), ": ")
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("plugin %s: %s; the kernel's log says why", name, last)
			}
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// offers reports whether a digest is one of a build's.
func offers(got *catalog.Installed, digest string) bool {
	for _, d := range got.Artifacts {
		if d == digest {
			return true
		}
	}
	return got.Digest == digest
}

// follow prints the records about the bundle from now on, whenever a kernel runs,
// until ctx ends.
func (d *developer) follow(ctx context.Context) {
	last := time.Now()
	for ctx.Err() == nil {
		if running(d.data) {
			last = d.records(ctx, last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(followEvery):
		}
	}
}

// records prints those after a time until the kernel or ctx ends, and returns the
// time of the last one. A kernel that is not reached, or that has no such bundle
// yet, is asked again later.
func (d *developer) records(ctx context.Context, after time.Time) (last time.Time) {
	cfg, err := (&cli.ConnectFlags{Data: d.data}).Config()
	if err != nil {
		return after
	}
	c, err := inspect.Dial(cfg)
	if err != nil {
		return after
	}
	lines, err := c.Stream(ctx, url.Values{"tail": {"-1"}, "follow": {"true"}}, "plugins", filepath.Base(mustAbs(d.dir)), "logs")
	if err != nil {
		return after
	}
	defer lines.Close()
	last = after
	for in := json.NewDecoder(lines); ; {
		var r plugin.LogRecord
		if err := in.Decode(&r); err != nil {
			return last
		}
		if !r.Time.After(after) { // was printed before the way to the kernel ended
			continue
		}
		last = slices.MaxFunc([]time.Time{last, r.Time}, time.Time.Compare)
		d.mu.Lock()
		fmt.Fprintf(d.out, "  | %s", recordText(&r, false))
		d.mu.Unlock()
	}
}
