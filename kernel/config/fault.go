package config

import (
	"fmt"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File string // empty: not from a file (environment, --set)
	Line int
	Key  string // dotted path, with [i] for list items
	Text string // what is wrong and what would be right
}

func (f Fault) Error() string {
	where := f.File
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	parts := make([]string, 0, 3)
	for _, p := range []string{where, f.Key, f.Text} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults is all that is wrong with a configuration, one line each.
type Faults []Fault

func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}
