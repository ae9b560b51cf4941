package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// fields are members of a Plugin's spec by their JSON names, each in one form.
// One that is not there is not set.
type fields map[string]json.RawMessage

var (
	// wideFields are those of a bundle: its plugins share one guest.
	wideFields = []string{"transport", "version", "digest", "timeout", "limits", "hostFunctions"}
	// ownFields are those of one plugin.
	ownFields = []string{"enabled", "profiles", "weight", "onFailure", "config", "permissions", "admissionRules", "shadow"}
)

// fieldsOf splits a spec; it cannot fail for one that the API took.
func fieldsOf(spec *v1alpha1.PluginSpec) fields {
	data, err := json.Marshal(spec)
	if err != nil {
		return fields{}
	}
	all := fields{}
	if json.Unmarshal(data, &all) != nil {
		return fields{}
	}
	maps.DeleteFunc(all, func(name string, v json.RawMessage) bool {
		return string(v) == "null" || !slices.Contains(wideFields, name) && !slices.Contains(ownFields, name)
	})
	for name, v := range all {
		all[name] = canonical(v)
	}
	return all
}

// canonical is a JSON value in one form: keys in order, no white space.
func canonical(v json.RawMessage) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(v))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return v
	}
	out, err := json.Marshal(value)
	if err != nil {
		return v
	}
	return out
}

func (f fields) same(other fields, name string) bool { return bytes.Equal(f[name], other[name]) }

func (f fields) put(name string, v json.RawMessage) {
	if v == nil {
		delete(f, name)
	} else {
		f[name] = v
	}
}

// into writes fields into a spec, and clears those of names that are not there.
func (f fields) into(spec *v1alpha1.PluginSpec, names []string) {
	all := fieldsOf(spec)
	for _, name := range names {
		all.put(name, f[name])
	}
	next := v1alpha1.PluginSpec{Bundle: spec.Bundle, Kind: spec.Kind}
	if data, err := json.Marshal(all); err == nil && json.Unmarshal(data, &next) == nil {
		next.Bundle, next.Kind = spec.Bundle, spec.Kind
		*spec = next
	}
}

// rememberedBytes bounds the values that are remembered as they are; annotations
// of an object have 256 KiB in all.
const rememberedBytes = 2048

// remembered is what is kept of the configured fields: themselves, or the
// digests of those that are long.
func remembered(configured fields) fields {
	out := fields{}
	for name, v := range configured {
		if len(v) > rememberedBytes {
			sum := sha256.Sum256(v)
			v = json.RawMessage(`"sha256:` + hex.EncodeToString(sum[:]) + `"`)
		}
		out[name] = v
	}
	return out
}

// configuredOf reads the annotation that remembers what the configuration said.
func configuredOf(o *v1alpha1.Plugin) (fields, bool) {
	text, ok := o.Annotations[v1alpha1.ConfiguredAnnotation]
	if !ok {
		return nil, false
	}
	f := fields{}
	if json.Unmarshal([]byte(text), &f) != nil {
		return nil, false // somebody wrote something else
	}
	for name, v := range f {
		f[name] = canonical(v)
	}
	return f, true
}

func (f fields) annotation() string {
	text, err := json.Marshal(remembered(f))
	if err != nil {
		return "{}"
	}
	return string(text)
}

// merge decides between the configuration and an object, field by field: what
// the configuration says anew counts, else what the object says. An object that
// remembers nothing is either somebody's own, which counts as far as it says
// something, or was made by a host that had no memory, which says nothing.
func merge(configured fields, o *v1alpha1.Plugin) fields {
	out := maps.Clone(configured)
	if o == nil {
		return out
	}
	said := fieldsOf(&o.Spec)
	last, remembers := configuredOf(o)
	if !remembers {
		if o.Labels[managedLabel] != managedByHost {
			maps.Copy(out, said)
		}
		return out
	}
	now := remembered(configured)
	for _, name := range slices.Concat(wideFields, ownFields) {
		// An operator who took rights away took them from later versions, too.
		narrowed := (name == "permissions" || name == "admissionRules") && said[name] != nil && !remembered(said).same(last, name)
		if narrowed || last.same(now, name) {
			out.put(name, said[name])
		}
	}
	return out
}

// objectLimits are limits in the API's form; nil where none is set.
func objectLimits(l manifest.Limits) *v1alpha1.PluginLimits {
	if l == (manifest.Limits{}) {
		return nil
	}
	out := &v1alpha1.PluginLimits{}
	if q, err := resource.ParseQuantity(l.Memory); err == nil {
		out.Memory = &q
	}
	if q, err := resource.ParseQuantity(l.CPU); err == nil {
		out.CPU = &q
	}
	if l.CallsPerSecond > 0 {
		out.CallsPerSecond = ptr.To(int32(l.CallsPerSecond))
	}
	if l.PIDs > 0 {
		out.PIDs = ptr.To(int32(l.PIDs))
	}
	return out
}

// widely lays a bundle's fields over its configuration.
func (f fields) widely(bc *BundleConfig) {
	var spec v1alpha1.PluginSpec
	f.into(&spec, wideFields)
	bc.Transport, bc.Version, bc.Digest, bc.Limits = string(spec.Transport), spec.Version, spec.Digest, manifest.LimitsOf(spec.Limits)
	bc.HostFunctions = spec.HostFunctions
	bc.Timeout = 0
	if spec.Timeout != nil {
		bc.Timeout = spec.Timeout.Duration
	}
}
