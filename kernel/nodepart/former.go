package nodepart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// formerTimeout bounds the removal of what one former network left.
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
		err = os.WriteFile(f.file, []byte(strings.Join(names, "\n")), 0o600)
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
	var kept []string
	for i, name := range names {
		if name == now || slices.Contains(names[:i], name) {
			continue
		}
		if err := f.stop(ctx, name); err != nil {
			kept = append(kept, name)
			if ctx.Err() == nil {
				f.part.deps.Logger.Warn("routes and interfaces of a former pod network stay; load its bundle and start again, or name it in node.network for one start and a stop with node.onStop: stop", "plugin", name, "error", err)
			}
			continue
		}
		f.part.deps.Logger.Info("removed what a former pod network left", "plugin", name)
	}
	if now != "" {
		kept = append(kept, now)
	}
	if slices.Equal(kept, names) {
		return nil
	}
	return f.write(kept)
}

// stop has one network remove what it left. It tries again until formerTimeout.
func (f formerNetworks) stop(ctx context.Context, name string) error {
	plugin, err := f.part.deps.Plugins.Network(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, formerTimeout)
	defer cancel()
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

// forget is for a network that removed all that it made. Without others the folder goes too.
func (f formerNetworks) forget(plugin, state string) error {
	names, err := f.names()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == plugin })
	if len(names) == 0 {
		return os.RemoveAll(state)
	}
	return f.write(names)
}
