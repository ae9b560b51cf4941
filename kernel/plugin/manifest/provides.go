package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Provides compares what a build describes with the manifest: it has each plugin that
// the manifest names, as the manifest has it.
func (m *Manifest) Provides(plugins []*contractv1.PluginDescription) error {
	described := map[string]*contractv1.PluginDescription{}
	var names []string
	for _, p := range plugins {
		described[p.GetName()] = p
		names = append(names, p.GetKind()+" "+p.GetName())
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	for i := range m.Plugins {
		e := &m.Plugins[i]
		p := described[e.Name]
		if p == nil || p.GetKind() != e.Kind {
			fault("its manifest promises %s %s, which the artefact does not provide; it provides: %s", e.Kind, e.Name, cmp.Or(strings.Join(names, ", "), "nothing"))
			continue
		}
		for _, f := range []struct{ what, manifest, artefact string }{
			{"scope", e.Scope, p.GetScope()}, {"normalize", e.Normalize, p.GetNormalize()},
		} {
			if f.manifest != "" && f.manifest != f.artefact {
				fault("%s of %s is %s in the manifest and %s in the artefact", f.what, e.Name, f.manifest, f.artefact)
			}
		}
		if text := e.reviewsMore(p); text != "" {
			fault("%s", text)
		}
		if most := p.GetMaxScore(); most < 0 || most > sdk.MaxFrameworkScore {
			fault("%s scores up to %d; the most is %d", e.Name, most, sdk.MaxFrameworkScore)
		}
	}
	return errors.Join(faults...)
}
