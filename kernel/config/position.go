package config

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// position is the file that a configuration was read from.
type position struct {
	file string
	tree *yaml.Node
	// besideLock is where the lock of installed bundles was by default.
	besideLock string
}

// FaultAt is a fault of what the file says at a key, for those who know more of
// it than this package: path names the key, with the numbers of list items. The
// line is that of the deepest part of the path that is there.
func (c *Config) FaultAt(path []string, text string) Fault {
	f := Fault{File: c.read.file, Text: text}
	n := c.read.tree
	for _, part := range path {
		if i, err := strconv.Atoi(part); err == nil {
			f.Key += "[" + part + "]"
			if n != nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
				n = n.Content[i]
			} else {
				n = nil
			}
		} else {
			f.Key += "." + part
			if n != nil && n.Kind == yaml.MappingNode {
				n = lookup(n, part)
			} else {
				n = nil
			}
		}
		if n != nil {
			f.Line = n.Line
		}
	}
	f.Key = strings.TrimPrefix(f.Key, ".")
	return f
}
