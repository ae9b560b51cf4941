package plugin

import contractv1 "pintle.dev/pintle/sdk/contract/v1"

var _ contractv1.Origins = (*Policy)(nil)

// Origin says which bundle answers for a plugin of the profile.
func (p *Policy) Origin(plugin string) contractv1.Origin {
	for _, places := range [][]place{p.filters, p.scorers} {
		for _, at := range places {
			if at.name == plugin {
				m := at.unit.bundle.Manifest
				return contractv1.Origin{Bundle: m.Name, Version: m.Version, Transport: at.unit.transport, Digest: at.unit.digest}
			}
		}
	}
	return contractv1.Origin{}
}
