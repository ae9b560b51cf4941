package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// peerEdit changes an object: a JSON pointer ("/-" appends to a list) to the
// value it gets, null to remove it.
type peerEdit map[string]any

func jsonCopy(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

// edited returns a copy of obj with the edit done.
func edited(obj map[string]any, e peerEdit) (map[string]any, error) {
	out := jsonCopy(obj)
	for _, path := range slices.Sorted(maps.Keys(e)) {
		parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
		for i, p := range parts {
			parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
		}
		var err error
		if out, err = setAt(out, parts, jsonCopy(e[path])); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out.(map[string]any), nil
}

func setAt(in any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch v := in.(type) {
	case nil:
		return setAt(map[string]any{}, path, value)
	case map[string]any:
		if len(path) == 1 && value == nil {
			delete(v, path[0])
			return v, nil
		}
		child, err := setAt(v[path[0]], path[1:], value)
		v[path[0]] = child
		return v, err
	case []any:
		if path[0] == "-" {
			child, err := setAt(nil, path[1:], value)
			return append(v, child), err
		}
		var i int
		if _, err := fmt.Sscanf(path[0], "%d", &i); err != nil || i < 0 || i >= len(v) {
			return nil, fmt.Errorf("no element %q", path[0])
		}
		if len(path) == 1 && value == nil {
			return append(v[:i], v[i+1:]...), nil
		}
		child, err := setAt(v[i], path[1:], value)
		v[i] = child
		return v, err
	}
	return nil, fmt.Errorf("%q is inside a value", path[0])
}

// leaves lists the leaves of a JSON value by their pointers; empty lists and
// objects are leaves.
func leaves(v any) map[string]any {
	out := map[string]any{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if len(v) == 0 {
				out[path] = v
			}
			for k, c := range v {
				walk(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), c)
			}
		case []any:
			if len(v) == 0 {
				out[path] = v
			}
			for i, c := range v {
				walk(fmt.Sprintf("%s/%d", path, i), c)
			}
		case nil:
			// As good as not there.
		default:
			out[path] = v
		}
	}
	walk("", v)
	return out
}

// changedLeaves is what turns the leaves of from into those of to; null is a
// leaf that goes.
func changedLeaves(from, to map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range to {
		if have, ok := from[k]; !ok || fmt.Sprint(have) != fmt.Sprint(v) {
			out[k] = v
		}
	}
	for k := range from {
		if _, ok := to[k]; !ok {
			out[k] = nil
		}
	}
	return out
}
