package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// EnvName is the environment variable of a key: api.port is PINTLE_API_PORT,
// store.historyRetention is PINTLE_STORE_HISTORYRETENTION.
func EnvName(key string) string {
	return "PINTLE_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// Keys lists every key that --set and the environment can reach.
func Keys() []string { return leafKeys("", reflect.TypeFor[Config]()) }

// override lays the environment and --set over the file's values. maps are those of
// words, by key, which Viper would take apart at the dots of their keys.
func override(v *viper.Viper, src Source) (maps map[string]*yaml.Node, faults Faults) {
	maps = map[string]*yaml.Node{}
	keys := Keys()
	for _, entry := range src.Environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "PINTLE_") {
			continue
		}
		at := slices.IndexFunc(keys, func(k string) bool { return EnvName(k) == name })
		if at < 0 {
			faults = append(faults, Fault{Key: name, Text: "no key of the configuration has this environment variable; see pintle config show"})
			continue
		}
		faults = append(faults, set(v, maps, name, keys[at], value)...)
	}
	for _, entry := range src.Set {
		key, value, ok := strings.Cut(entry, "=")
		if !ok {
			faults = append(faults, Fault{Key: "--set " + entry, Text: "want key=value"})
			continue
		}
		if !slices.Contains(keys, key) {
			faults = append(faults, Fault{Key: "--set " + key, Text: unknownKey(key, keys)})
			continue
		}
		faults = append(faults, set(v, maps, "--set "+key, key, value)...)
	}
	return maps, faults
}

func unknownKey(key string, keys []string) string {
	fields := make([]field, len(keys))
	for i, k := range keys {
		fields[i] = field{key: k}
	}
	if near := nearest(key, fields); near != "" {
		return fmt.Sprintf("unknown key; did you mean %q?", near)
	}
	return "unknown key; pintle config show lists them all"
}

// set checks one value against the schema and gives it to Viper, or to maps.
func set(v *viper.Viper, maps map[string]*yaml.Node, name, key, value string) Faults {
	f := fieldAt(key)
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: "!!str"}
	switch {
	case f.raw:
		if node = parseValue(value); node == nil || node.Kind != yaml.MappingNode {
			return Faults{{Key: name, Text: fmt.Sprintf("%q is not a YAML map such as {a: b}", value)}}
		}
	case f.typ.Kind() == reflect.Slice:
		if node = parseValue(value); node == nil {
			return Faults{{Key: name, Text: fmt.Sprintf("%q is not a YAML list such as [a, b]", value)}}
		}
	}
	c := &checker{}
	c.value(key, node, f)
	if len(c.faults) > 0 {
		for i := range c.faults {
			c.faults[i].Line = 0
			c.faults[i].Key = strings.Replace(c.faults[i].Key, key, name, 1)
		}
		return c.faults
	}
	switch {
	case f.raw:
		maps[key] = node
	case f.typ.Kind() == reflect.Slice:
		var list []any
		if err := node.Decode(&list); err != nil {
			return Faults{{Key: name, Text: err.Error()}}
		}
		v.Set(key, list)
	default:
		v.Set(key, value)
	}
	return nil
}

// parseValue reads a value in YAML; nil for what is none.
func parseValue(value string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.NewDecoder(strings.NewReader(value)).Decode(&doc); err != nil || len(doc.Content) == 0 || hasAlias(&doc) {
		return nil
	}
	return doc.Content[0]
}

// fieldAt finds the schema of a dotted key that Keys lists.
func fieldAt(key string) field {
	t := reflect.TypeFor[Config]()
	var f field
	for part := range strings.SplitSeq(key, ".") {
		fields := fieldsOf(t)
		f = fields[slices.IndexFunc(fields, func(f field) bool { return f.key == part })]
		t = f.typ
	}
	return f
}

// takeMaps sets the maps of words that stand over those of the file.
func takeMaps(dst reflect.Value, maps map[string]*yaml.Node) {
	for key, n := range maps {
		at := dst
		for part := range strings.SplitSeq(key, ".") {
			fields := fieldsOf(at.Type())
			at = at.Field(fields[slices.IndexFunc(fields, func(f field) bool { return f.key == part })].index)
		}
		at.Set(reflect.ValueOf(words(n)))
	}
}
