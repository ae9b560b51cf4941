package description

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/readable"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

var (
	scopes         = []string{string(sdk.ScopeNodeObject), string(sdk.ScopeNode), string(sdk.ScopeCluster)}
	normalizations = []string{
		string(sdk.NormalizeNone), string(sdk.NormalizeMax), string(sdk.NormalizeReverseMax), string(sdk.NormalizeReverse),
		string(sdk.NormalizeMinMax), string(sdk.NormalizePlugin), string(sdk.NormalizePluginNonzero),
	}
	// newer are those that there are since contract 3.
	newer = []string{string(sdk.NormalizeReverse), string(sdk.NormalizeMinMax), string(sdk.NormalizePluginNonzero)}
)

// Check says what is wrong with the descriptions of a guest that speaks a version of
// the contract, each fault with the plugin's name.
func Check(speaks uint32, plugins []*contractv1.PluginDescription) error {
	var faults []error
	for _, p := range plugins {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s %q: "+format, append([]any{p.GetKind(), p.GetName()}, args...)...))
		}
		since := func(what string) {
			if speaks < contract.Three {
				fault("%s is there since contract %d, and it speaks %d", what, contract.Three, speaks)
			}
		}
		if s := p.GetScope(); s != "" && sdk.SchedulingKind(p.GetKind()) && !slices.Contains(scopes, s) {
			fault("scope %q; want one of %s", s, strings.Join(scopes, ", "))
		}
		switch n := p.GetNormalize(); {
		case n == "":
		case !slices.Contains(normalizations, n):
			fault("normalize %q; want one of %s", n, strings.Join(normalizations, ", "))
		case slices.Contains(newer, n):
			since("normalize " + n)
		}
		if p.GetMaxScore() != 0 {
			since("maxScore")
		}
		if p.GetExpires() {
			if speaks < contract.Four {
				fault("expires is there since contract %d, and it speaks %d", contract.Four, speaks)
			}
			if kind := p.GetKind(); kind != sdk.KindPredicate && kind != sdk.KindPriority {
				fault("expires is for predicates and priorities")
			}
		}
		for _, kind := range p.GetReads() {
			if fault := Readable(kind); fault != "" {
				faults = append(faults, fmt.Errorf("%s %q: reads %s", p.GetKind(), p.GetName(), fault))
			}
		}
	}
	return errors.Join(faults...)
}

// Readable says why plugins cannot read objects of a kind, or "".
func Readable(kind string) string {
	if _, ok := readable.Of(kind); ok {
		return ""
	}
	return fmt.Sprintf("%q; plugins read %s", kind, strings.Join(readable.Names(), ", "))
}
