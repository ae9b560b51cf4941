package config

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
)

// Change is a key whose value differs between two configurations.
type Change struct {
	Key  string
	Live bool // takes effect while the kernel runs
}

// Diff lists the keys that differ, in the order of the schema.
func Diff(before, after *Config) []Change {
	return diff("", false, reflect.ValueOf(*before), reflect.ValueOf(*after))
}

func diff(prefix string, live bool, a, b reflect.Value) []Change {
	var out []Change
	for _, f := range fieldsOf(a.Type()) {
		key, x, y := join(prefix, f.key), a.Field(f.index), b.Field(f.index)
		if isGroup(f.typ) {
			out = append(out, diff(key, live || f.live, x, y)...)
		} else if !same(x, y) {
			out = append(out, Change{Key: key, Live: live || f.live})
		}
	}
	return out
}

// Restart returns the keys among changes that wait for a restart.
func Restart(changes []Change) []string {
	var out []string
	for _, c := range changes {
		if !c.Live {
			out = append(out, c.Key)
		}
	}
	slices.Sort(out)
	return out
}

// same compares two values; an absent list or map equals an empty one.
func same(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.Slice, reflect.Map:
		if x.Len() == 0 && y.Len() == 0 {
			return true
		}
	}
	// In lists of structs, too.
	return equality.Semantic.DeepEqual(x.Interface(), y.Interface())
}
