package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrNoPlugin is wrapped when neither a plugin nor a bundle of a name is loaded.
var ErrNoPlugin = errors.New("is not loaded")

// LogRecord is a record about a bundle, as Logs gives it.
type LogRecord struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
	// Source is "plugin" for what the bundle itself wrote, "host" for what the
	// plugin host says of it.
	Source string `json:"source"`
	// Version of the bundle that was loaded then.
	Version    string         `json:"version,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"`
}

// LogOptions say which records Logs gives.
type LogOptions struct {
	// Tail is how many of the past ones, the last; negative is all that are kept.
	Tail int
	// Follow goes on with those that come, until the context ends.
	Follow bool
}

// Logs hands out the records that are kept about a bundle, or about one plugin
// with those of its bundle that are about none in particular: the last 1,000 a
// bundle, 256 KiB at most. Each line is a LogRecord as JSON. It returns what write
// returned, nil when ctx ends, and an error that wraps ErrNoPlugin.
func (h *Host) Logs(ctx context.Context, name string, o LogOptions, write func(line []byte) error) error {
	j, about, err := h.journalOf(name)
	if err != nil {
		return err
	}
	lines, last, _, wake := j.read(0, about)
	if o.Tail >= 0 && len(lines) > o.Tail {
		lines = lines[len(lines)-o.Tail:]
	}
	for {
		for _, line := range lines {
			if err := write(line); err != nil {
				return err
			}
		}
		if !o.Follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		var lost uint64
		if lines, last, lost, wake = j.read(last, about); lost > 0 {
			line, err := json.Marshal(LogRecord{
				Time: time.Now(), Level: "WARN", Source: sourceHost, Message: "records came faster than they were read, and some are gone",
				Attributes: map[string]any{"lost": lost},
			})
			if err != nil {
				return err
			}
			lines = append([][]byte{append(line, '\n')}, lines...)
		}
	}
}

// journalOf finds the records about a bundle or a plugin.
func (h *Host) journalOf(name string) (j *journal, about string, err error) {
	if j := h.journals.known(name); j != nil {
		return j, "", nil
	}
	if u, _ := h.present().holds(name); u != nil {
		return h.journals.of(u.bundle.Manifest.Name), name, nil
	}
	return nil, "", fmt.Errorf("plugin or bundle %s %w", name, ErrNoPlugin)
}
