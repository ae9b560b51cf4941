package templates

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"
)

//go:embed all:files
var files embed.FS

// Values fill a template in.
type Values struct {
	// Name is the bundle's name, which is its folder's: quiet-hours.
	Name string
	// SDK is the folder that holds pintle.dev/pintle, for Go: until it is
	// published, a workspace points there.
	SDK string
	// Go is the version of the language in go.mod: 1.26.
	Go string
	// Contract holds the .proto files of the contract (contractv1.Files), which
	// processes in other languages are made from.
	Contract fs.FS
}

// filled is what the files see.
type filled struct {
	Values
	Kind   string
	Plugin string // the plugin's name
	Ident  string // QuietHours
	Snake  string // quiet_hours
	Lower  string // quiet-hours, as a name in DNS
}

// sources are the folders, under files, that make up one language's template of
// one kind.
var sources = map[string]map[string][]string{
	"go": {
		"predicate":  {"manifest/plugin", "go/common", "go/scheduling", "go/predicate", "cases/predicate"},
		"priority":   {"manifest/plugin", "go/common", "go/scheduling", "go/priority", "cases/priority"},
		"controller": {"manifest/controller", "go/common", "go/controller"},
		"admission":  {"manifest/admission", "go/common", "go/admission", "cases/admission"},

		"pre-enqueue": {"manifest/plugin", "go/common", "go/cycle", "go/pre-enqueue"},
		"queue-sort":  {"manifest/plugin", "go/common", "go/cycle", "go/queue-sort"},
		"pre-filter":  {"manifest/plugin", "go/common", "go/cycle", "go/pre-filter"},
		"post-filter": {"manifest/plugin", "go/common", "go/cycle", "go/post-filter"},
		"pre-score":   {"manifest/plugin", "go/common", "go/cycle", "go/pre-score"},
		"reserve":     {"manifest/plugin", "go/common", "go/cycle", "go/reserve"},
		"permit":      {"manifest/plugin", "go/common", "go/cycle", "go/permit"},
		"pre-bind":    {"manifest/plugin", "go/common", "go/cycle", "go/pre-bind"},
		"bind":        {"manifest/plugin", "go/common", "go/cycle", "go/bind"},
		"post-bind":   {"manifest/plugin", "go/common", "go/cycle", "go/post-bind"},

		"apiserver": {"manifest/apiserver", "go/common", "go/apiserver"},
		"cloud":     {"manifest/cloud", "go/common", "go/cloud"},

		"runtime": {"manifest/plugin", "go/common", "go/runtime"},
		"proxy":   {"manifest/plugin", "go/common", "go/proxy"},
		"network": {"manifest/plugin", "go/common", "go/network"},
	},
	"c":              module("c"),
	"assemblyscript": module("assemblyscript"),
	"rust":           module("rust"),
	"node": {
		"predicate": {"manifest/plugin", "node/common", "node/predicate", "cases/predicate"},
		"priority":  {"manifest/plugin", "node/common", "node/priority", "cases/priority"},
	},
}

// module are the kinds of a language that is built as a module.
func module(language string) map[string][]string {
	return map[string][]string{
		"predicate":  {"manifest/plugin", language + "/common", language + "/scheduling", language + "/predicate", "cases/predicate"},
		"priority":   {"manifest/plugin", language + "/common", language + "/scheduling", language + "/priority", "cases/priority"},
		"controller": {"manifest/controller", language + "/common", language + "/objects", language + "/controller"},
		"admission":  {"manifest/admission", language + "/common", language + "/objects", language + "/admission", "cases/admission"},
	}
}

// missing says why a kind has no template in a language other than Go.
func missing(language, kind string) string {
	switch {
	case kind == "runtime" || kind == "proxy" || kind == "network" || kind == "apiserver" || kind == "cloud":
		return "it runs as a process, written in Go or by hand over gRPC (sdk/README.md, \"Another language\")"
	case language == "node":
		return "a process in JavaScript serves that contract by hand (sdk/contract/v1)"
	}
	return "a module in another language answers pintle_cycle by hand (sdk/ABI.md, \"The scheduling cycle\")"
}

// Languages are the languages that have templates, Go first.
func Languages() []string {
	list := slices.Sorted(maps.Keys(sources))
	i := slices.Index(list, "go")
	return append([]string{"go"}, slices.Delete(list, i, i+1)...)
}

// Kinds are the kinds that a language has templates for.
func Kinds(language string) []string { return slices.Sorted(maps.Keys(sources[language])) }

// Render returns the files of a new plugin by their slash-separated paths.
func Render(language, kind string, v Values) (map[string][]byte, error) {
	folders := sources[language][kind]
	if folders == nil {
		if sources[language] == nil {
			return nil, fmt.Errorf("no templates for language %q; there are %s", language, strings.Join(Languages(), ", "))
		}
		if sources["go"][kind] != nil {
			return nil, fmt.Errorf("no template of a %s in %s: %s; there is one in go, and in %s there are %s",
				kind, language, missing(language, kind), language, strings.Join(Kinds(language), ", "))
		}
		return nil, fmt.Errorf("no kind of plugin %q; in %s there are %s", kind, language, strings.Join(Kinds(language), ", "))
	}
	if !plain(v.Name) {
		return nil, fmt.Errorf("name %q: want a letter, then letters, digits and '-', at most 50", v.Name)
	}
	with := filled{Values: v, Kind: kind, Ident: camel(v.Name), Snake: strings.ReplaceAll(strings.ToLower(v.Name), "-", "_"), Lower: strings.ToLower(v.Name)}
	with.Plugin = with.Ident
	if kind == "controller" || kind == "admission" || kind == "runtime" || kind == "proxy" || kind == "network" || kind == "apiserver" || kind == "cloud" {
		with.Plugin = v.Name
	}
	out := map[string][]byte{}
	for _, folder := range folders {
		root := path.Join("files", folder)
		err := fs.WalkDir(files, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := files.ReadFile(name)
			if err != nil {
				return err
			}
			to := strings.TrimPrefix(name, root+"/")
			if strings.HasSuffix(to, ".tmpl") {
				if data, err = fill(name, data, with); err != nil {
					return err
				}
				to = strings.TrimSuffix(to, ".tmpl")
			}
			out[strings.Replace(to, "gitignore", ".gitignore", 1)] = data
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if language == "node" {
		for _, name := range []string{"plugin.proto", "scheduling.proto"} {
			data, err := fs.ReadFile(v.Contract, name)
			if err != nil {
				return nil, err
			}
			out["proto/"+name] = data
		}
	}
	return out, nil
}

func fill(name string, data []byte, with filled) ([]byte, error) {
	t, err := template.New(name).Delims("[[", "]]").Option("missingkey=error").Parse(string(data))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, with); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// plain reports whether a name can be a folder, a module and an identifier.
func plain(name string) bool {
	if name == "" || len(name) > 50 || strings.HasSuffix(name, "-") {
		return false
	}
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !(r >= '0' && r <= '9' || r == '-')) {
			return false
		}
	}
	return true
}

// camel turns quiet-hours into QuietHours.
func camel(name string) string {
	var b strings.Builder
	for _, part := range strings.Split(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}
