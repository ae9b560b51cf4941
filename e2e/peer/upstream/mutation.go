package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// strangers are values that some field, somewhere, has to refuse.
var strangers = []any{"", "Bad_Name", "a..b", "x.example.com/y", "0", "-1", "Nope", strings.Repeat("long", 64)}

var numbers = []any{-1, 0, 1, 2, 65536, 1 << 30}

// mutations draws up to n edits of obj, each of one place: a leaf gets another
// value, a branch goes, an element of a list comes twice.
func mutations(r *rand.Rand, obj map[string]any, n int) []edit {
	var all []edit
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			if path != "" {
				all = append(all, edit{path: nil})
			}
			for _, k := range sortedKeys(v) {
				if path == "" && (k == "apiVersion" || k == "kind") {
					continue
				}
				walk(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), v[k])
			}
		case []any:
			all = append(all, edit{path: nil})
			if len(v) > 0 {
				all = append(all, edit{path + "/-": v[r.IntN(len(v))]})
				i := r.IntN(len(v))
				walk(fmt.Sprintf("%s/%d", path, i), v[i])
			}
		case string:
			all = append(all, edit{path: strangers[r.IntN(len(strangers))]}, edit{path: strangers[r.IntN(len(strangers))]})
		case float64:
			all = append(all, edit{path: numbers[r.IntN(len(numbers))]}, edit{path: numbers[r.IntN(len(numbers))]}, edit{path: nil})
		case bool:
			all = append(all, edit{path: !v})
		}
	}
	walk("", obj)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(n, len(all))]
}
