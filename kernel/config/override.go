package config

import (
	"bytes"
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

// override lays the environment and --set over the file's values.
func override(v *viper.Viper, src Source) Faults {
	var faults Faults
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
		faults = append(faults, set(v, name, keys[at], value)...)
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
		faults = append(faults, set(v, "--set "+key, key, value)...)
	}
	return faults
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

// set checks one value against the schema and gives it to Viper.
func set(v *viper.Viper, name, key, value string) Faults {
	f := fieldAt(key)
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: "!!str"}
	if f.typ.Kind() == reflect.Slice {
		var doc yaml.Node
		if err := yaml.NewDecoder(bytes.NewReader([]byte(value))).Decode(&doc); err != nil || len(doc.Content) == 0 || hasAlias(&doc) {
			return Faults{{Key: name, Text: fmt.Sprintf("%q is not a YAML list such as [a, b]", value)}}
		}
		node = doc.Content[0]
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
	if f.typ.Kind() != reflect.Slice {
		v.Set(key, value)
		return nil
	}
	var list []any
	if err := node.Decode(&list); err != nil {
		return Faults{{Key: name, Text: err.Error()}}
	}
	v.Set(key, list)
	return nil
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
