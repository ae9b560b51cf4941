package kubecontrollers

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kcmv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/strictyaml"
	"pintle.dev/pintle/kernel/yamltree"
)

// APIVersion and Kind are of the files that are translated.
const (
	APIVersion = "kubecontrollermanager.config.k8s.io/v1alpha1"
	Kind       = "KubeControllerManagerConfiguration"

	bundle = "controllers" // that has the plugins
	listed = "Generic.Controllers"
	all    = "*"
	rootCA = "root-ca"
)

// Translation is a translated file.
type Translation struct {
	enabled, disabled []string
	configs           *yaml.Node // by plugin
	// Notes say what has no counterpart and needs none.
	Notes config.Faults
}

// Translate translates a file; name is for messages. Its error is config.Faults: each
// line says what could not be translated, where, and what to do; what could be is
// returned with it, unless the file cannot be read at all.
func Translate(name string, data []byte) (*Translation, error) {
	f, err := strictyaml.Read(name, data, "kind: "+Kind)
	if err != nil {
		return nil, err
	}
	for key, want := range map[string]string{"apiVersion": APIVersion, "kind": Kind} {
		if have := yamltree.Child(f.Root, key); have == nil || have.Value != want {
			f.Fault(key, "want %s", want)
		}
	}
	var in kcmv1alpha1.KubeControllerManagerConfiguration
	if len(f.Faults) > 0 || !f.Decode("", f.Root, &in) {
		return nil, f.Faults
	}
	t := &Translation{configs: &yaml.Node{Kind: yaml.MappingNode}}
	t.choose(f, in.Generic.Controllers)
	for i := 0; i+1 < len(f.Root.Content); i += 2 {
		if key := f.Root.Content[i].Value; key != "apiVersion" && key != "kind" {
			t.field(f, key, f.Root.Content[i+1])
		}
	}
	t.Notes = f.Notes
	if len(f.Faults) > 0 {
		return t, f.Faults
	}
	return t, nil
}

// choose finds the controllers that are on, as kube-controller-manager does: of what is
// said of one the first counts, then whether * is there.
func (t *Translation) choose(f *strictyaml.File, list []string) {
	said := map[string]bool{}
	star := len(list) == 0
	for i, item := range list {
		path := fmt.Sprintf("%s[%d]", listed, i)
		if item == all {
			star = true
			continue
		}
		name, off := strings.CutPrefix(item, "-")
		c := find(name)
		if c == nil {
			f.Fault(path, "%q is no controller of Kubernetes 1.36", name)
			continue
		}
		if _, before := said[c.name]; before {
			continue
		}
		said[c.name] = !off
		switch {
		case !off && c.plugin == "" && !c.kernel:
			f.Fault(path, "%s is not there: leave it out, or run it beside this kernel", c.name)
		case off && c.kernel && c.disable == "":
			f.Fault(path, "%s is part of the kernel and always runs", c.name)
		}
	}
	var absent []string
	for i := range controllers {
		c := &controllers[i]
		on, explicit := said[c.name]
		if !explicit {
			on = star && !c.optional
		}
		switch {
		case on && c.plugin != "":
			t.enabled = append(t.enabled, c.plugin)
		case on && !explicit && !c.kernel:
			absent = append(absent, c.name)
		case !on && !explicit && c.kernel && c.disable == "":
			f.Note(listed, "does not have %s, which is part of the kernel and always runs", c.name)
		case !on && c.disable != "":
			t.disabled = append(t.disabled, c.disable)
		}
	}
	if len(absent) > 0 {
		f.Note(listed, "these are on by default in Kubernetes and are not there: %s", strings.Join(absent, ", "))
	}
}

// field translates a field, or all below a group.
func (t *Translation) field(f *strictyaml.File, path string, value *yaml.Node) {
	r, ruled := rules[path]
	if !ruled {
		for i := 0; i+1 < len(value.Content); i += 2 {
			t.field(f, path+"."+value.Content[i].Value, value.Content[i+1])
		}
		return
	}
	switch {
	case path == listed || nothing(value) && !r.zero:
	case value.Tag == "!!null" || slices.Contains(r.harmless, value.Value):
	case r.key != "":
		t.take(f, path, &r, value)
	case r.fault != "":
		f.Fault(path, "not supported: %s", r.fault)
	default:
		f.Note(path, "has no counterpart: %s", r.note)
	}
}

// take takes a field over under the plugin's key. Values have the same form there.
func (t *Translation) take(f *strictyaml.File, path string, r *rule, value *yaml.Node) {
	if strings.HasPrefix(value.Value, "-") && r.key != "terminatedPodThreshold" {
		f.Fault(path, "Invalid value: %s: is negative", value.Value)
		return
	}
	if n, err := strconv.ParseInt(value.Value, 0, 64); r.most > 0 && (err != nil || n > int64(r.most)) {
		f.Fault(path, "Invalid value: %s: at most %d are possible", value.Value, r.most)
		return
	}
	if !slices.Contains(t.enabled, r.plugin) {
		f.Note(path, "is left out: %s is not on", r.plugin)
		return
	}
	yamltree.Put(mapping(t.configs, r.plugin), r.key, &yaml.Node{Kind: value.Kind, Tag: value.Tag, Value: value.Value})
}

// nothing tells the values by which a field says that it says nothing.
func nothing(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value == "" || n.Value == "0" || n.Value == "0s" || n.Value == "0.0" || n.Tag == "!!null"
	case yaml.MappingNode, yaml.SequenceNode:
		return len(n.Content) == 0
	}
	return false
}

// YAML is the translation as a configuration of its own.
func (t *Translation) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	yamltree.Put(root, "apiVersion", word(config.APIVersion))
	yamltree.Put(root, "kind", word(config.Kind))
	t.put(root)
	return encode(root)
}

// Into is an existing configuration with the translation in it: the new list of
// controllers replaces kube-controller-manager's in the existing one, and settings are
// added to the existing ones. Everything else stays, with its comments.
func (t *Translation) Into(name string, existing []byte) ([]byte, error) {
	f, err := strictyaml.Read(name, existing, "kind: "+config.Kind)
	if err != nil {
		return nil, err
	}
	t.put(f.Root)
	return encode(f.Root)
}

func (t *Translation) put(root *yaml.Node) {
	plugins := mapping(root, "plugins")
	bundles := yamltree.Child(plugins, "bundles")
	if bundles == nil || bundles.Kind != yaml.SequenceNode {
		bundles = &yaml.Node{Kind: yaml.SequenceNode}
		yamltree.Put(plugins, "bundles", bundles)
	}
	at := slices.IndexFunc(bundles.Content, func(n *yaml.Node) bool {
		have := yamltree.Child(n, "name")
		return have != nil && have.Value == bundle
	})
	if at < 0 {
		at = len(bundles.Content)
		entry := &yaml.Node{Kind: yaml.MappingNode}
		yamltree.Put(entry, "name", word(bundle))
		bundles.Content = append(bundles.Content, entry)
	}
	entry := bundles.Content[at]
	if len(t.configs.Content) > 0 || slices.Contains(t.enabled, rootCA) {
		configs := mapping(entry, "config")
		if slices.Contains(t.enabled, rootCA) && yamltree.Child(configs, rootCA) == nil {
			yamltree.Put(mapping(configs, rootCA), "caFile", word("${dataDir}/pki/ca.crt"))
		}
		for i := 0; i+1 < len(t.configs.Content); i += 2 {
			into, from := mapping(configs, t.configs.Content[i].Value), t.configs.Content[i+1]
			for j := 0; j+1 < len(from.Content); j += 2 {
				yamltree.Put(into, from.Content[j].Value, from.Content[j+1])
			}
		}
	}
	group := mapping(root, "controllers")
	yamltree.Put(group, "enabled", words(append(slices.Clone(t.enabled), others(yamltree.Child(group, "enabled"))...)))
	if len(t.disabled) > 0 || yamltree.Child(group, "disable") != nil {
		yamltree.Put(group, "disable", words(t.disabled))
	}
}

// others are the enabled controllers that kube-controller-manager does not have: the
// file says nothing about them, so they stay.
func others(enabled *yaml.Node) (list []string) {
	if enabled == nil {
		return nil
	}
	for _, n := range enabled.Content {
		if !slices.ContainsFunc(controllers, func(c known) bool { return c.plugin == n.Value }) {
			list = append(list, n.Value)
		}
	}
	return list
}

func word(text string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(text)
	return n
}

func words(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if len(list) == 0 {
		n.Style = yaml.FlowStyle
	}
	for _, text := range list {
		n.Content = append(n.Content, word(text))
	}
	return n
}

// mapping is the group of keys at a key, made if it is not there.
func mapping(n *yaml.Node, key string) *yaml.Node {
	if m := yamltree.Child(n, key); m != nil && m.Kind == yaml.MappingNode {
		return m
	}
	m := &yaml.Node{Kind: yaml.MappingNode}
	yamltree.Put(n, key, m)
	return m
}

func encode(root *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("write translation: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write translation: %w", err)
	}
	return b.Bytes(), nil
}
