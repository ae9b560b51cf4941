package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Flags gives the configuration as other components of Kubernetes tell their flags
// (/flagz): each key with its value as a word. What plugins are configured with is
// theirs and is left out; of lists of groups their length is told.
func Flags(cfg *Config) map[string]string {
	out := map[string]string{}
	flags(out, "", reflect.ValueOf(*cfg))
	return out
}

func flags(out map[string]string, prefix string, v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		path, x := join(prefix, f.key), v.Field(f.index)
		switch {
		case f.typ == typeRaw:
		case isGroup(f.typ):
			flags(out, path, x)
		case f.raw:
			m := x.Interface().(map[string]string)
			var entries []string
			for _, k := range slices.Sorted(maps.Keys(m)) {
				entries = append(entries, k+"="+m[k])
			}
			out[path] = strings.Join(entries, ",")
		case f.typ.Kind() == reflect.Slice && isGroup(f.typ.Elem()):
			out[path] = strconv.Itoa(x.Len())
		case f.typ.Kind() == reflect.Slice:
			var entries []string
			for i := range x.Len() {
				entries = append(entries, fmt.Sprint(x.Index(i).Interface()))
			}
			out[path] = strings.Join(entries, ",")
		case f.typ == typeDuration:
			out[path] = x.Interface().(time.Duration).String()
		default:
			out[path] = fmt.Sprint(x.Interface())
		}
	}
}
