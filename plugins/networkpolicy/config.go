package networkpolicy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"pintle.dev/pintle/plugins/networkpolicy/program"
)

// Name is the plugin's.
const Name = "networkpolicy"

// Config is the plugin's configuration.
type Config struct {
	// CheckInterval is how often the plugin looks whether somebody else changed rules of
	// the machine, as a duration of 1s or more. Defaults to 5s.
	CheckInterval string `json:"checkInterval,omitempty"`
	// NamespaceBudget bounds what the policies of one namespace take of this node.
	NamespaceBudget Budget `json:"namespaceBudget,omitzero"`

	check time.Duration
}

// Budget bounds what the policies of one namespace take of a node. A policy that does not fit
// isolates its pods and allows no connection. 0 stands for the default.
type Budget struct {
	// Rules of the packet filter, 100 or more. Defaults to 10000.
	Rules int `json:"rules,omitempty"`
	// Sets of addresses, 10 or more. Defaults to 1000.
	Sets int `json:"sets,omitempty"`
	// Elements of these sets, 1000 or more. Defaults to 100000.
	Elements int `json:"elements,omitempty"`
	// Selectors of peers, 10 or more. Defaults to 2000.
	Selectors int `json:"selectors,omitempty"`
	// Bytes that are kept of policies, roughly, 65536 or more. Defaults to 8388608.
	Bytes int `json:"bytes,omitempty"`
}

// defaultBytes are those of a budget.
const defaultBytes = 8 << 20

// program is what of a budget programs are made by.
func (b Budget) program() program.Budget {
	return program.Budget{Rules: b.Rules, Sets: b.Sets, Elements: b.Elements, Selectors: b.Selectors}
}

// of is a limit's number.
func (b Budget) of(l program.Limit) int {
	switch l {
	case program.Rules:
		return b.Rules
	case program.Sets:
		return b.Sets
	case program.Elements:
		return b.Elements
	case program.Selectors:
		return b.Selectors
	}
	return b.Bytes
}

// complete fills in what is 0, and checks the rest.
func (b *Budget) complete() error {
	d := program.DefaultBudget
	for _, key := range []struct {
		name             string
		value            *int
		otherwise, least int
	}{
		{"rules", &b.Rules, d.Rules, 100}, {"sets", &b.Sets, d.Sets, 10}, {"elements", &b.Elements, d.Elements, 1000},
		{"selectors", &b.Selectors, d.Selectors, 10}, {"bytes", &b.Bytes, defaultBytes, 1 << 16},
	} {
		if *key.value == 0 {
			*key.value = key.otherwise
		}
		if *key.value < key.least || *key.value > 1<<30 {
			return fmt.Errorf("namespaceBudget.%s %d: want %d to %d, or 0 for %d", key.name, *key.value, key.least, 1<<30, key.otherwise)
		}
	}
	return nil
}

func parseConfig(data []byte) (Config, error) {
	c := Config{check: 5 * time.Second}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&c); err != nil {
			return c, fmt.Errorf("read configuration of %s: %w", Name, err)
		}
	}
	if c.CheckInterval != "" {
		d, err := time.ParseDuration(c.CheckInterval)
		if err != nil || d < time.Second {
			return c, fmt.Errorf("configuration of %s: checkInterval %q: want a duration of 1s or more", Name, c.CheckInterval)
		}
		c.check = d
	}
	if err := c.NamespaceBudget.complete(); err != nil {
		return c, fmt.Errorf("configuration of %s: %w", Name, err)
	}
	return c, nil
}
