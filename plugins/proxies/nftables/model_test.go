package nftables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is a kernel in memory that takes what the real one takes: an element is added where
// there is none and deleted where there is one, and what leads to a chain needs that chain.
type model struct {
	number  uint32 // the generation
	count   uint32
	tables  map[*family]*modelTable
	refuse  func(t transaction) error // nil: takes everything
	history []transaction
	reads   int
}

type modelTable struct {
	foreign  bool
	layout   bool            // its rules are as this process committed them
	written  map[string]bool // so are those of these chains
	elements map[item]string
	chains   map[string]chain
	maps     map[string]bool
}

func newModel() *model { return &model{number: 1, tables: map[*family]*modelTable{}} }

func (m *model) generation() (uint32, error) { return m.number, nil }
func (m *model) commits() uint32             { return m.count }
func (m *model) close() error                { return nil }

func (m *model) committed() { m.number++; m.count++ }

func (m *model) read(f *family) (found, error) {
	m.reads++
	t := m.tables[f]
	if t == nil {
		return found{}, nil
	}
	written := maps.Clone(t.chains)
	maps.DeleteFunc(written, func(name string, _ chain) bool { return !t.written[name] })
	return found{
		exists: true, foreign: t.foreign, layout: t.layout, written: written, elements: maps.Clone(t.elements),
		chains: slices.Sorted(maps.Keys(t.chains)), maps: slices.Sorted(maps.Keys(t.maps)),
	}, nil
}

var errNoEntry = errors.New("no such file or directory")

func (m *model) commit(f *family, _ settings, t transaction) error {
	if m.refuse != nil {
		if err := m.refuse(t); err != nil {
			return err
		}
	}
	old := m.tables[f]
	if t.rebuild {
		old = nil
	}
	if old == nil && !t.layout {
		return errNoEntry
	}
	if old == nil {
		old = &modelTable{}
	}
	now := &modelTable{layout: old.layout || t.layout, chains: map[string]chain{}, maps: map[string]bool{}, written: map[string]bool{}}
	maps.Copy(now.chains, old.chains)
	maps.Copy(now.written, old.written)
	maps.Copy(now.maps, old.maps)
	for _, c := range t.chains {
		now.chains[c.name], now.written[c.name] = c, true
		if c.kind == stick {
			now.maps[c.affinity] = true
		}
	}
	for _, c := range t.chains {
		for _, to := range []string{c.to, c.toLocal} {
			if _, there := now.chains[to]; to != "" && !there {
				return fmt.Errorf("%s goes to %s: %w", c.name, to, errNoEntry)
			}
		}
	}
	for _, c := range t.changes {
		if !c.add || !definitions[c.set()].verdicts || c.value == verdictDrop || c.value == chainReject {
			continue
		}
		if _, there := now.chains[c.value]; !there {
			return fmt.Errorf("%s leads to %s: %w", c.set(), c.value, errNoEntry)
		}
	}
	var ok bool
	if now.elements, ok = apply(old.elements, t.changes); !ok {
		return errNoEntry
	}
	m.tables[f] = now
	m.history = append(m.history, t)
	m.committed()
	return nil
}

func (m *model) prune(f *family, chains, gone []string) error {
	t := m.tables[f]
	if t == nil {
		return errNoEntry
	}
	for _, name := range chains {
		if _, there := t.chains[name]; !there {
			return errNoEntry
		}
		for i, value := range t.elements {
			if definitions[i.set()].verdicts && value == name {
				return fmt.Errorf("%s is in use", name)
			}
		}
		for other, c := range t.chains {
			if (c.to == name || c.toLocal == name) && !slices.Contains(chains, other) {
				return fmt.Errorf("%s is in use by %s", name, other)
			}
		}
	}
	for _, name := range chains {
		delete(t.chains, name)
	}
	for _, name := range gone {
		if !t.maps[name] {
			return errNoEntry
		}
		for _, c := range t.chains {
			if c.affinity == name {
				return fmt.Errorf("%s is in use by %s", name, c.name)
			}
		}
		delete(t.maps, name)
	}
	m.committed()
	return nil
}

func (m *model) remove(f *family) error {
	if m.tables[f] != nil {
		delete(m.tables, f)
		m.committed()
	}
	return nil
}

// changes counts what was sent since the history was last cleared.
func (m *model) changes() (elements, chains int, text string) {
	var b strings.Builder
	for _, t := range m.history {
		elements += len(t.changes)
		chains += len(t.chains)
		for _, c := range t.chains {
			fmt.Fprintf(&b, "chain %s\n", c.name)
		}
		for _, c := range t.changes {
			fmt.Fprintf(&b, "%s %x del=%t add=%t %q\n", c.set(), c.key(), c.del, c.add, c.value)
		}
	}
	return elements, chains, b.String()
}
