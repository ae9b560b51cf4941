package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/yamltree"
)

// File is a file as a tree, in which everything has a line, and what was found about it.
type File struct {
	Name string
	Root *yaml.Node
	// Notes say what needs no counterpart, Faults what is wrong or not supported.
	Notes  config.Faults
	Faults config.Faults
}

// limits of a file: its size, and how deep it may be nested.
const (
	maxDepth = 64
)

// Read reads a file; want names the kinds that it may hold, for the message about an empty one.
func Read(file string, data []byte, want string) (*File, error) {
	s := &File{Name: file}
	if len(data) > config.MaxFileSize {
		return nil, config.Faults{{File: file, Text: fmt.Sprintf("larger than %d bytes", config.MaxFileSize)}}
	}
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, config.Faults{{File: file, Line: 1, Text: "is empty; want " + want}}
		}
		line, text := 1, strings.TrimPrefix(err.Error(), "yaml: ")
		if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
			_, text, _ = strings.Cut(text, ": ")
		}
		return nil, config.Faults{{File: file, Line: line, Text: "not YAML: " + text}}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, config.Faults{{File: file, Line: 1, Text: "holds more than one YAML document; keep one"}}
	}
	s.Root = doc.Content[0]
	if s.Root.Kind != yaml.MappingNode {
		return nil, config.Faults{{File: file, Line: s.Root.Line, Text: "want a group of keys"}}
	}
	if fault := unfit(s.Root, 0); fault != "" {
		return nil, config.Faults{{File: file, Line: s.Root.Line, Text: fault}}
	}
	return s, nil
}

// unfit finds what could make a small file expand without end, or a reader's
// stack grow.
func unfit(n *yaml.Node, depth int) string {
	switch {
	case n.Kind == yaml.AliasNode:
		return "YAML aliases are not supported; write the value out"
	case depth > maxDepth:
		return fmt.Sprintf("is nested more than %d deep", maxDepth)
	}
	for _, c := range n.Content {
		if fault := unfit(c, depth+1); fault != "" {
			return fault
		}
	}
	return ""
}

// At returns the deepest node that a path leads to; what: parts such as
// profiles, [0], plugins.
func (s *File) At(path string) *yaml.Node {
	n := s.Root
	for _, part := range pathParts(path) {
		next := yamltree.Child(n, part)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

// Has reports whether a path is there.
func (s *File) Has(path string) bool {
	n := s.Root
	for _, part := range pathParts(path) {
		if n = yamltree.Child(n, part); n == nil {
			return false
		}
	}
	return true
}

var separators = regexp.MustCompile(`[.\[\]]+`)

func pathParts(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(separators.ReplaceAllString(path, "."), ".") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Line is that of a path's key where it is one, else of the node.
func (s *File) Line(path string) int {
	parts := pathParts(path)
	n, line := s.Root, s.Root.Line
	for _, part := range parts {
		next := yamltree.Child(n, part)
		if next == nil {
			break
		}
		line = next.Line
		if n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == part {
					line = n.Content[i].Line
				}
			}
		}
		n = next
	}
	return line
}

// Fault says what is wrong at a path.
func (s *File) Fault(path, format string, args ...any) {
	s.Faults = append(s.Faults, config.Fault{File: s.Name, Line: s.Line(path), Key: path, Text: fmt.Sprintf(format, args...)})
}

// Note says what is worth knowing about a path.
func (s *File) Note(path, format string, args ...any) {
	s.Notes = append(s.Notes, config.Fault{File: s.Name, Line: s.Line(path), Key: path, Text: fmt.Sprintf(format, args...)})
}

// Invalid takes in what upstream's checks found.
func (s *File) Invalid(list field.ErrorList) {
	for _, e := range list {
		s.Fault(e.Field, "%s", e.ErrorBody())
	}
}

var quotedField = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)

// Decode reads the node at a path into a type of Kubernetes, strictly: names are
// compared with their case, unknown and repeated ones are faults.
func (s *File) Decode(path string, n *yaml.Node, into any) bool {
	text, err := ToJSON(n)
	if err != nil {
		s.Fault(path, "%v", err)
		return false
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		s.Fault(path, "%s", strings.TrimPrefix(err.Error(), "json: "))
		return false
	}
	for _, e := range strict {
		at, text := path, e.Error()
		if m := quotedField.FindStringSubmatch(text); m != nil {
			at = strings.TrimPrefix(path+"."+m[2], ".")
			text = m[1] + " field"
		}
		s.Fault(at, "%s", text)
	}
	return len(strict) == 0
}

// ToJSON writes a tree as JSON, with repeated keys, which the reader of it is to
// complain about.
func ToJSON(n *yaml.Node) ([]byte, error) {
	switch n.Kind {
	case yaml.MappingNode:
		out := []byte{'{'}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if i > 0 {
				out = append(out, ',')
			}
			if n.Content[i].Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: a key that is no word", n.Content[i].Line)
			}
			key, err := json.Marshal(n.Content[i].Value)
			if err != nil {
				return nil, err
			}
			value, err := ToJSON(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			out = append(append(append(out, key...), ':'), value...)
		}
		return append(out, '}'), nil
	case yaml.SequenceNode:
		out := []byte{'['}
		for i, c := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			value, err := ToJSON(c)
			if err != nil {
				return nil, err
			}
			out = append(out, value...)
		}
		return append(out, ']'), nil
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("line %d: %q is no value", n.Line, n.Value)
	}
	return text, nil
}
