package features

import (
	_ "embed"
	"slices"
	"strings"

	"k8s.io/component-base/featuregate"
)

// Gate is a feature gate of Kubernetes.
type Gate struct {
	Name string
	// Stage is ALPHA, BETA, DEPRECATED, or nothing for what is generally available,
	// as upstream's metric has it.
	Stage string
	// Default and Locked are upstream's.
	Default, Locked bool
	// Here is what is so in Pintle where nobody sets it.
	Here bool
	// Settable: the gate switches something.
	Settable bool
	// Why it is not as upstream's; empty where it is.
	Why string
}

//go:embed gates.txt
var recorded string

var gates = parse(recorded)

func parse(text string) map[string]Gate {
	all := map[string]Gate{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] == "#" {
			continue
		}
		g := Gate{Name: f[0], Stage: f[1], Default: f[2] == "true", Locked: f[3] == "true"}
		if g.Stage == "GA" {
			g.Stage = string(featuregate.GA)
		}
		g.Here = g.Default
		if why, ok := absent[g.Name]; ok {
			g.Here, g.Why = false, why
		}
		if why, ok := always[g.Name]; ok {
			g.Here, g.Why = true, why
		}
		g.Settable = slices.Contains(switches, g.Name) || slices.Contains(clientSwitches, g.Name)
		all[g.Name] = g
	}
	return all
}

// All gives the gates by name.
func All() []Gate {
	out := make([]Gate, 0, len(gates))
	for _, g := range gates {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b Gate) int { return strings.Compare(a.Name, b.Name) })
	return out
}
