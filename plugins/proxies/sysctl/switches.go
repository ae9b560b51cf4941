package sysctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Switches are some of the kernel's, and the file in which their first values are remembered.
type Switches struct {
	Proc  string   // /proc/sys, but for tests
	File  string   // made when a value is remembered, with its folder
	Known []string // those that Restore may touch, by their paths below Proc
}

// Set sets switches, and remembers what they were. What an earlier start remembered and no
// cleanup has put back yet (a process that was killed) stays as it is: by now the kernel shows
// our own values. A switch that the kernel does not have is left out.
func (s Switches) Set(want map[string]string) error {
	before, err := s.remembered()
	if err != nil {
		// A file that cannot be read must not keep the node from working.
		before = nil
	}
	differ := map[string]string{}
	for name, value := range want {
		data, err := os.ReadFile(filepath.Join(s.Proc, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", dotted(name), err)
		}
		if got := strings.TrimSpace(string(data)); got != value {
			differ[name] = got
		}
	}
	if len(differ) == 0 {
		return nil
	}
	maps.Copy(differ, before)
	// First remembered, then set: a process that is killed in between has lost nothing.
	if err := s.remember(differ); err != nil {
		return fmt.Errorf("remember kernel settings: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		err := os.WriteFile(filepath.Join(s.Proc, name), []byte(want[name]), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s to %s: %w", dotted(name), want[name], err)
		}
	}
	return nil
}

// dotted is a switch by the name that the program sysctl has for it.
func dotted(name string) string { return strings.ReplaceAll(name, "/", ".") }

func (s Switches) remember(values map[string]string) error {
	data, err := json.Marshal(values)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.File), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.File+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(s.File+".tmp", s.File)
}

// remembered returns the values to put back, nil for none.
func (s Switches) remembered() (map[string]string, error) {
	data, err := os.ReadFile(s.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var before map[string]string
	return before, json.Unmarshal(data, &before)
}

// back puts some switches back, of those that are known and were remembered.
func (s Switches) back(names ...string) error {
	before, err := s.remembered()
	if err != nil {
		return fmt.Errorf("restore kernel settings: %w", err)
	}
	for _, name := range names {
		value, was := before[name]
		if !was || !slices.Contains(s.Known, name) {
			continue
		}
		if err := os.WriteFile(filepath.Join(s.Proc, name), []byte(value), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %s: %w", dotted(name), err)
		}
	}
	return nil
}

// Restore puts the remembered values back and forgets them.
func (s Switches) Restore() error {
	if err := s.back(s.Known...); err != nil {
		return err
	}
	if err := os.Remove(s.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget kernel settings: %w", err)
	}
	return nil
}
