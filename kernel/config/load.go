package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// MaxFileSize bounds the configuration file, in bytes.
const MaxFileSize = 1 << 20

// Source says where to take a configuration from.
type Source struct {
	// File is the YAML file; empty for defaults, environment and Set alone.
	File string
	// Set holds key=value pairs, which win over everything else. A value for
	// a list or a map of words is YAML: --set 'node.proxies=[userspace]',
	// --set 'node.labels={disk: ssd}'. The map takes the place of the whole one before.
	Set []string
	// Environ is the environment as os.Environ returns it; nil for none.
	Environ []string
}

// Load reads, merges and checks a configuration. Every fault found is
// returned at once, as Faults.
func Load(src Source) (*Config, error) {
	tree, faults := readTree(src.File)
	if len(faults) > 0 {
		return nil, faults
	}
	v := viper.New()
	v.SetConfigType("yaml")
	c := &checker{file: src.File}
	if tree != nil {
		c.group("", tree, reflect.TypeFor[Config]())
		if len(c.faults) > 0 {
			return nil, c.faults
		}
		text, err := yaml.Marshal(tree)
		if err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
		}
		if err := v.ReadConfig(bytes.NewReader(text)); err != nil {
			return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
		}
	}
	maps, faults := override(v, src)
	if len(faults) > 0 {
		return nil, faults
	}
	cfg := Default()
	cfg.read = position{file: src.File, tree: tree}
	hook := mapstructure.ComposeDecodeHookFunc(mapstructure.StringToTimeDurationHookFunc(), sizeHook)
	if err := v.Unmarshal(cfg, viper.DecodeHook(hook), replaceLists); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
	}
	if tree != nil {
		takeRaw(reflect.ValueOf(cfg).Elem(), tree)
	}
	takeMaps(reflect.ValueOf(cfg).Elem(), maps)
	for i := range cfg.Scheduler.Profiles {
		for j := range cfg.Scheduler.Profiles[i].Priorities {
			if p := &cfg.Scheduler.Profiles[i].Priorities[j]; p.Weight == 0 {
				p.Weight = 1
			}
		}
	}
	cfg.installed(src.File)
	if faults := crossCheck(cfg, src.File, tree); len(faults) > 0 {
		return nil, faults
	}
	return cfg, nil
}

// installed fills in where installed bundles are kept and pinned.
func (c *Config) installed(file string) {
	if c.Plugins.Catalog == "" {
		c.Plugins.Catalog = filepath.Join(c.DataDir, "catalog")
	}
	if c.Plugins.LockFile == "" {
		c.Plugins.LockFile = filepath.Join(c.DataDir, lockFile)
		if file != "" {
			c.read.besideLock = filepath.Join(filepath.Dir(file), lockFile)
		}
	}
}

const lockFile = "plugins.lock"

// FormerLock is where the lock was by default: beside the configuration file. Empty
// where there is no file, or the file says where the lock is.
func (c *Config) FormerLock() string { return c.read.besideLock }

// replaceLists makes a list in the file replace the default list instead of
// overlaying it item by item.
func replaceLists(c *mapstructure.DecoderConfig) { c.ZeroFields = true }

func readTree(file string) (*yaml.Node, Faults) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		text := "cannot be read"
		if errors.Is(err, os.ErrNotExist) {
			text = "no such file; name an existing one with --config"
		} else if errors.Is(err, os.ErrPermission) {
			text = "permission denied; make the file readable"
		}
		return nil, Faults{{File: file, Text: text}}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, Faults{{File: file, Text: "cannot be read: " + err.Error()}}
	}
	if len(text) > MaxFileSize {
		return nil, Faults{{File: file, Text: fmt.Sprintf("larger than %d bytes", MaxFileSize)}}
	}
	return parseTree(file, text)
}

func parseTree(file string, text []byte) (*yaml.Node, Faults) {
	var doc yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		line, what := splitYAMLError(err)
		return nil, Faults{{File: file, Line: line, Text: what}}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, Faults{{File: file, Text: "holds more than one YAML document; keep one"}}
	}
	root := doc.Content[0]
	if root.Kind == yaml.AliasNode || hasAlias(root) {
		return nil, Faults{{File: file, Line: root.Line, Text: "YAML aliases are not supported; write the value out"}}
	}
	return root, nil
}

// hasAlias finds aliases, which could make a small file expand without end.
func hasAlias(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return true
	}
	for _, c := range n.Content {
		if hasAlias(c) {
			return true
		}
	}
	return false
}

func splitYAMLError(err error) (int, string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return line, "not YAML: " + text
}

// takeRaw copies the maps whose keys are the user's from the YAML tree.
func takeRaw(dst reflect.Value, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		return
	}
	for _, f := range fieldsOf(dst.Type()) {
		child := lookup(n, f.key)
		if child == nil || isNull(child) {
			continue
		}
		target := dst.Field(f.index)
		switch {
		case f.raw && f.typ == typeRaw:
			var v any
			if child.Decode(&v) == nil {
				if text, err := json.Marshal(v); err == nil {
					target.SetBytes(text)
				}
			}
		case f.raw:
			target.Set(reflect.ValueOf(words(child)))
		case isGroup(f.typ):
			takeRaw(target, child)
		case f.typ.Kind() == reflect.Slice && isGroup(f.typ.Elem()) && child.Kind == yaml.SequenceNode:
			for i := 0; i < target.Len() && i < len(child.Content); i++ {
				takeRaw(target.Index(i), child.Content[i])
			}
		}
	}
}

// words is a map of words.
func words(n *yaml.Node) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		m[n.Content[i].Value] = n.Content[i+1].Value
	}
	return m
}

func lookup(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// sizeHook turns quantities into Size.
func sizeHook(from, to reflect.Type, data any) (any, error) {
	if to != typeSize {
		return data, nil
	}
	return ParseSize(fmt.Sprint(data))
}

// Resolve makes relative paths absolute, starting at the working directory.
func (c *Config) Resolve() error {
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return fmt.Errorf("dataDir %s: %w", c.DataDir, err)
	}
	c.DataDir = dir
	for _, path := range []*string{&c.Plugins.Catalog, &c.Plugins.LockFile} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("plugins: %w", err)
		}
	}
	return nil
}
