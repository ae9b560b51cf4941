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
		if p.MaxScore != 0 {
			out = append(out, `,"maxScore":`+strconv.FormatInt(p.MaxScore, 10)...)
		}
		out = appendList(out, "reads", p.Reads)
		if p.Instances {
			out = append(out, `,"instances":true`...)
		}
		out = appendInterests(out, p.Events)
		if p.Pods != "" {
			out = append(out, `,"pods":"`+string(p.Pods)+`"`...)
		}
		if p.ByClass {
			out = append(out, `,"byClass":true`...)
		}
		if p.Samples {
			out = append(out, `,"samples":true`...)
		}
		if p.Ranks {
			out = append(out, `,"ranks":true`...)
		}
		if p.Expires {
			out = append(out, `,"expires":true`...)
		}
		if a := p.Announced; a != nil {
			out = appendAnnounced(out, a)
		}
		out = append(out, '}')
	}
	return append(out, `]}`...)
}

func appendList(out []byte, key string, list []string) []byte {
	for k, item := range list {
		if k == 0 {
			out = append(out, `,"`+key+`":["`...)
		} else {
			out = append(out, `","`...)
		}
		out = append(out, item...)
	}
	if len(list) > 0 {
		out = append(out, `"]`...)
	}
	return out
}

func appendInterests(out []byte, list []Interest) []byte {
	if list == nil {
		return out
	}
	out = append(out, `,"hears":true,"events":[`...)
	for k := range list {
		if k > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"kind":"`+list[k].Kind+`","actions":`+strconv.FormatUint(uint64(list[k].Actions), 10)...)
		if list[k].Helps != nil {
			out = append(out, `,"hint":true`...)
		}
		out = append(out, '}')
	}
	return append(out, ']')
}

func appendAnnounced(out []byte, a *Announcement) []byte {
	if a.For != "" {
		out = append(out, `,"for":"`+a.For+`"`...)
	}
	out = appendList(out, "owns", a.Owns)
	if a.Phase == "" {
		return out
	}
	out = append(out, `,"phase":"`+a.Phase+`","rules":[`...)
	for i, r := range a.Rules {
		if i > 0 {
			out = append(out, ',')
		}
		rule := appendList(appendList(nil, "operations", r.Operations), "resources", r.Resources)
		out = append(append(append(out, '{'), rule[1:]...), '}')
	}
	return append(out, ']')
}
