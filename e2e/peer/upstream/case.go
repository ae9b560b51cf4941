package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// edit changes an object: a JSON pointer ("/-" appends to a list) to the value
// it gets, null to remove it.
type edit map[string]any

// group is one document of the corpus: an object and variations of it.
type group struct {
	Name   string         `json:"name"`
	Object map[string]any `json:"object"`
	// Create are variations on a new object, Update changes of the stored one.
	Create []edit `json:"create"`
	Update []edit `json:"update"`
	// Sub are changes through a subresource, by its name.
	Sub map[string][]edit `json:"sub"`
	// Mutations is how many generated variations there are, where not as many as
	// of other groups.
	Mutations *int `json:"mutations"`
}

// readCorpus reads the groups of each *.yaml in dir, by the file's name.
func readCorpus(dir string) (map[string][]group, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	out := map[string][]group{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
		base := strings.TrimSuffix(filepath.Base(file), ".yaml")
		for {
			var g group
			if err := d.Decode(&g); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%s: after %d groups: %w", file, len(out[base]), err)
			}
			if g.Name == "" || g.Object == nil {
				return nil, fmt.Errorf("%s: group %d lacks name or object", file, len(out[base])+1)
			}
			out[base] = append(out[base], g)
		}
	}
	return out, nil
}

func clone(v any) any {
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

// apply returns a copy of obj with the edit done.
func apply(obj map[string]any, e edit) (map[string]any, error) {
	var out any = clone(obj)
	paths := make([]string, 0, len(e))
	for path := range e {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		var err error
		if out, err = set(out, split(path), clone(e[path])); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out.(map[string]any), nil
}

func split(path string) []string {
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(p)
	}
	return parts
}

func set(in any, path []string, value any) (any, error) {
	if len(path) == 0 {
		return value, nil
	}
	switch v := in.(type) {
	case nil:
		return set(map[string]any{}, path, value)
	case map[string]any:
		if len(path) == 1 && value == nil {
			delete(v, path[0])
			return v, nil
		}
		child, err := set(v[path[0]], path[1:], value)
		v[path[0]] = child
		return v, err
	case []any:
		if path[0] == "-" {
			child, err := set(nil, path[1:], value)
			return append(v, child), err
		}
		var i int
		if _, err := fmt.Sscanf(path[0], "%d", &i); err != nil || i < 0 || i >= len(v) {
			return nil, fmt.Errorf("no element %q", path[0])
		}
		if len(path) == 1 && value == nil {
			return append(v[:i], v[i+1:]...), nil
		}
		child, err := set(v[i], path[1:], value)
		v[i] = child
		return v, err
	}
	return nil, fmt.Errorf("%q is inside a value", path[0])
}

// flat lists the leaves of a JSON value by their pointers; empty lists and
// objects are leaves.
func flat(v any) map[string]any {
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

// difference is what turns the leaves of from into those of to; null is a leaf
// that goes.
func difference(from, to map[string]any) map[string]any {
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
