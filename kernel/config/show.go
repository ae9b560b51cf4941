package config

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/features"
)

// Show writes a configuration as YAML that Load reads back. Each key has its
// documentation above it, and beside it whether a change is live or needs a
// restart, and the environment variable that sets it.
func Show(w io.Writer, cfg *Config) error {
	root := showGroup("", false, reflect.ValueOf(*cfg))
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("show configuration: %w", err)
	}
	return enc.Close()
}

func showGroup(prefix string, live bool, v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fieldsOf(v.Type()) {
		path := join(prefix, f.key)
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: f.key, HeadComment: f.doc}
		fieldLive := live || f.live
		value := showValue(path, fieldLive, v.Field(f.index), f)
		if value == nil {
			continue
		}
		inList := strings.Contains(prefix, "[")
		if !isGroup(f.typ) && !inList {
			note := "restart"
			if fieldLive {
				note = "live"
			}
			if f.typ != typeRaw {
				note += "; " + EnvName(path)
			}
			if allowed := allowed(f); allowed != "" {
				note += "; " + allowed
			}
			key.HeadComment += "\n(" + note + ")"
			if f.format == "features" {
				key.HeadComment += settable()
			}
		}
		if inList {
			key.HeadComment = ""
		}
		n.Content = append(n.Content, key, value)
	}
	return n
}

func allowed(f field) string {
	if len(f.enum) > 0 {
		return strings.Join(f.enum, " | ")
	}
	if low, high, ok := strings.Cut(f.rng, ","); ok {
		return low + " to " + high
	}
	return ""
}

// showValue returns nil for values that are left out: empty optional words in lists.
func showValue(path string, live bool, v reflect.Value, f field) *yaml.Node {
	scalar := func(s string) *yaml.Node {
		n := &yaml.Node{}
		n.SetString(s)
		return n
	}
	plain := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
	inList := strings.Contains(path, "[")
	switch {
	case f.raw && f.typ == typeRaw:
		if v.Len() == 0 {
			return nil
		}
		var x any
		n := &yaml.Node{}
		if json.Unmarshal(v.Bytes(), &x) != nil || n.Encode(x) != nil {
			return nil
		}
		return n
	case f.raw:
		n := &yaml.Node{Kind: yaml.MappingNode}
		m := v.Interface().(map[string]string)
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			value := scalar(m[k])
			if f.format == "features" || f.format == "runtimeConfig" {
				value = plain(m[k])
			}
			n.Content = append(n.Content, scalar(k), value)
		}
		return n
	case f.typ == typeDuration:
		return plain(v.Interface().(time.Duration).String())
	case f.typ == typeSize:
		return plain(v.Interface().(Size).String())
	case isGroup(f.typ):
		return showGroup(path, live, v)
	}
	switch f.typ.Kind() {
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		item := f
		item.typ = f.typ.Elem()
		for i := range v.Len() {
			value := showValue(fmt.Sprintf("%s[%d]", path, i), live, v.Index(i), item)
			if value == nil { // an empty item stays one
				value = scalar("")
			}
			n.Content = append(n.Content, value)
		}
		if !isGroup(item.typ) {
			n.Style = yaml.FlowStyle
		}
		return n
	case reflect.Bool:
		return plain(strconv.FormatBool(v.Bool()))
	case reflect.Int, reflect.Int64:
		return plain(strconv.FormatInt(v.Int(), 10))
	}
	if inList && v.String() == "" {
		return nil
	}
	return scalar(v.String())
}

// settable tells the feature gates that switch something, a line each.
func settable() string {
	var b strings.Builder
	b.WriteString("\nGates that switch something, with their defaults:")
	for _, g := range features.All() {
		if !g.Settable {
			continue
		}
		stage := g.Stage
		if stage == "" {
			stage = "GA"
		}
		fmt.Fprintf(&b, "\n  %s: %t (%s)", g.Name, g.Here, stage)
	}
	return b.String()
}
