package sealed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/yamltree"
)

const (
	// File is where a build writes its digests.
	File = "artifacts.yaml"
	// manifest is the author's file.
	manifest = "manifest.yaml"
	// MaxBytes bounds each of the two.
	MaxBytes = 1 << 20

	key     = "artifacts"
	heading = "# Written by pintle plugin build: what was built. Leave it out of version control.\n"
)

// Read returns the manifest of a folder as it is packed.
func Read(dir string) ([]byte, error) {
	data, err := bounded(filepath.Join(dir, manifest))
	if err != nil {
		return nil, err
	}
	built, err := bounded(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return data, nil
	}
	if err != nil {
		return nil, err
	}
	return Join(data, built)
}

// bounded reads a file as far as one byte more than it may have, which who parses it
// complains about.
func bounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxBytes+1))
}

// Join puts what a build wrote into a manifest. One that cannot be read, or that names
// digests itself, stays as it is.
func Join(data, built []byte) ([]byte, error) {
	var doc yaml.Node
	if yaml.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return data, nil
	}
	top := doc.Content[0]
	if Pinned(yamltree.Child(top, key)) {
		return data, nil
	}
	var said yaml.Node
	if err := yaml.Unmarshal(built, &said); err != nil {
		return nil, fmt.Errorf("%s: %w; build the bundle again", File, err)
	}
	if len(said.Content) == 0 || said.Content[0].Kind != yaml.MappingNode || yamltree.Child(said.Content[0], key) == nil || len(said.Content[0].Content) != 2 {
		return nil, fmt.Errorf("%s: want the one key %s; build the bundle again", File, key)
	}
	if top.Style&yaml.FlowStyle != 0 || top.Column != 1 {
		With(top, yamltree.Child(said.Content[0], key))
		return encode(&doc)
	}
	text, err := encode(&said)
	if err != nil {
		return nil, err
	}
	return append(blanked(data, top), text...), nil
}

// Pinned reports whether the artefacts of a manifest have digests.
func Pinned(n *yaml.Node) bool {
	if n == nil {
		return false
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Value == "digest" && n.Content[i+1].Value != "" {
				return true
			}
			continue
		}
		if Pinned(c) {
			return true
		}
	}
	return false
}

// blanked is the text of a manifest with empty lines in the place of its artefacts,
// and a line's end.
func blanked(data []byte, top *yaml.Node) []byte {
	lines := strings.SplitAfter(string(data), "\n")
	for i := 0; i+1 < len(top.Content); i += 2 {
		if top.Content[i].Value != key {
			continue
		}
		end := len(lines)
		if i+2 < len(top.Content) {
			end = top.Content[i+2].Line - 1
		}
		for l := top.Content[i].Line - 1; l < end; l++ {
			lines[l] = "\n"
		}
	}
	return append([]byte(strings.TrimRight(strings.Join(lines, ""), "\n")), '\n')
}

// With sets the artefacts of a manifest.
func With(top, artifacts *yaml.Node) {
	if n := yamltree.Child(top, key); n != nil {
		*n = *artifacts
		return
	}
	top.Content = append(top.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, artifacts)
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Built is the text of File for artefacts.
func Built(artifacts *yaml.Node) ([]byte, error) {
	top := &yaml.Node{Kind: yaml.MappingNode}
	With(top, artifacts)
	text, err := encode(&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{top}})
	return append([]byte(heading), text...), err
}
