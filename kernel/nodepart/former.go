package nodepart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"pintle.dev/pintle/kernel/secretfile"
)

const (
	// formerTimeout bounds the removal of what all former networks left: the node's start waits for it.
	formerTimeout = 30 * time.Second
	// formerPause is the pause between two tries: the plugin's process may not run yet.
	formerPause = 100 * time.Millisecond
	// mostKept bounds the file of names, in bytes.
	mostKept = 4096
)

// formerNetworks are the network plugins that may have left something on this machine: a stop with
// onStop: keep leaves what they made.
type formerNetworks struct {
	part *Part
	file string // their names, one a line
}

func (f formerNetworks) names() ([]string, error) {
	data, err := os.ReadFile(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && len(data) > mostKept {
		err = fmt.Errorf("%s has %d bytes, want %d at most; delete it", f.file, len(data), mostKept)
	}
	if err != nil {
		return nil, fmt.Errorf("read names of former pod networks: %w", err)
	}
	return strings.Fields(string(data)), nil
}

func (f formerNetworks) write(names []string) error {
	var err error
	if len(names) > 0 {
		// Whole or not at all: a name that is lost leaves its routes for good.
		err = secretfile.Write(f.file, []byte(strings.Join(names, "\n")), 0o600)
	} else if err = os.Remove(f.file); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("write names of former pod networks: %w", err)
	}
	return nil
}

// remove removes what networks other than now left, and writes down that now, if there is one, may
// leave something too. A network that cannot be removed stays in the file for the next start.
func (f formerNetworks) remove(ctx context.Context, now string) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	var others []string
	for _, name := range names {
		if name != now && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	var kept []string
	for i, err := range f.stopAll(ctx, others) {
		name := others[i]
		if err != nil {
			kept = append(kept, name)
			if ctx.Err() == nil {
				f.part.deps.Logger.Warn("routes and interfaces of a former pod network stay; load its bundle and start again, or name it in node.network for one start and a stop with node.onStop: stop", "plugin", name, "error", err)
			}
			continue
		}
		// A plugin that was built with an older SDK answers the same, and removes nothing.
		f.part.deps.Logger.Info("a former pod network was asked to remove what it left, and answered without an error", "plugin", name)
	}
	if now != "" {
		kept = append(kept, now)
	}
	if slices.Equal(kept, names) {
		return nil
	}
	return f.write(kept)
}

// stopAll has networks remove what they left, all at once: one whose process never runs takes no time from
// the others. The errors are in the order of names.
func (f formerNetworks) stopAll(ctx context.Context, names []string) []error {
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
	errs := make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { errs[i] = f.stop(ctx, name) })
	}
	wait.Wait()
	return errs
}

// stop has one network remove what it left. It tries again until ctx ends.
func (f formerNetworks) stop(ctx context.Context, name string) error {
	plugin, err := f.part.deps.Plugins.Network(name)
	if err != nil {
		return err
	}
	for {
		if err = plugin.Stop(ctx, true); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(formerPause):
		}
	}
}

// forget is for a network that removed all that it made. The folder goes with the last file: a former
// network may have noted there what it changed on the machine, and needs that to restore it.
func (f formerNetworks) forget(plugin, state string) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == plugin })
	if err := f.write(names); err != nil || len(names) > 0 {
		return err
	}
	if err := os.Remove(state); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("remove the folder of pod networks: %w", err)
	}
	return nil
}
