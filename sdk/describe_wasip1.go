package sdk

import "strconv"

// describeJSON writes the description that a WASM module hands to the host.
// Names are plain (Register sees to it), so nothing needs escaping, and
// encoding/json, a third of a small module's size, stays out of it.
func describeJSON(version uint32, plugins []PluginInfo) []byte {
	out := []byte(`{"contract":` + strconv.FormatUint(uint64(version), 10) + `,"plugins":[`)
	for i, p := range plugins {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"name":"`+p.Name+`","kind":"`+p.Kind+`"`...)
		if p.Scope != "" {
			out = append(out, `,"scope":"`+string(p.Scope)+`"`...)
		}
		if p.Normalize != "" {
			out = append(out, `,"normalize":"`+string(p.Normalize)+`"`...)
		}
		for k, kind := range p.Reads {
			if k == 0 {
				out = append(out, `,"reads":["`...)
			} else {
				out = append(out, `","`...)
			}
			out = append(out, kind...)
		}
		if len(p.Reads) > 0 {
			out = append(out, `"]`...)
		}
		out = append(out, '}')
	}
	return append(out, `]}`...)
}
