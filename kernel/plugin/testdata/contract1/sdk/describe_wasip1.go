package sdk

// describeJSON writes the description that a WASM module hands to the host.
// Names are plain (Register sees to it), so nothing needs escaping, and
// encoding/json, a third of a small module's size, stays out of it.
func describeJSON(plugins []PluginInfo) []byte {
	out := []byte(`{"contract":1,"plugins":[`)
	for i, p := range plugins {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"name":"`+p.Name+`","kind":"`+p.Kind+`","scope":"`+string(p.Scope)+`"`...)
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
