package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"pintle.dev/pintle/kernel/yamltree"
)

// field is one key of the schema, read from the tags of Config.
type field struct {
	key      string // last part of the path, as written in the file
	typ      reflect.Type
	rng      string
	enum     []string
	format   string
	live     bool
	required bool
	raw      bool
	doc      string
	index    int // position in the parent struct
}

var (
	typeDuration = reflect.TypeFor[time.Duration]()
	typeSize     = reflect.TypeFor[Size]()
	typeRaw      = reflect.TypeFor[json.RawMessage]()
)

// fieldsOf lists the keys of a configuration struct in the order of the code.
func fieldsOf(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		f := field{
			key:      sf.Tag.Get("mapstructure"),
			typ:      sf.Type,
			rng:      sf.Tag.Get("range"),
			format:   sf.Tag.Get("format"),
			live:     sf.Tag.Get("live") == "true",
			required: sf.Tag.Get("required") == "true",
			doc:      sf.Tag.Get("doc"),
			index:    i,
		}
		if raw := sf.Tag.Get("raw"); raw != "" {
			f.key, f.raw = raw, true
		}
		if e := sf.Tag.Get("enum"); e != "" {
			f.enum = strings.Split(e, ",")
		}
		out = append(out, f)
	}
	return out
}

// isGroup reports whether a type is a nested set of keys.
func isGroup(t reflect.Type) bool { return t.Kind() == reflect.Struct }

// leafKeys lists the dotted paths of all scalar keys, lists and maps of words: what
// --set and the environment can reach.
func leafKeys(prefix string, t reflect.Type) []string {
	var out []string
	for _, f := range fieldsOf(t) {
		path := join(prefix, f.key)
		if isGroup(f.typ) {
			out = append(out, leafKeys(path, f.typ)...)
			continue
		}
		if f.typ != typeRaw {
			out = append(out, path)
		}
	}
	return out
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

// nearest returns the known key closest to an unknown one, or "" if none is close.
func nearest(key string, fields []field) string {
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	return yamltree.Nearest(key, known)
}
