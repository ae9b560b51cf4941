package kubeletconfig

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/config/strictyaml"
	"pintle.dev/pintle/kernel/features"
	"pintle.dev/pintle/kernel/yamltree"
)

// APIVersion and Kind are of the files that are translated.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// Translation is a translated file.
type Translation struct {
	node *yaml.Node
	// Notes say what has no counterpart and needs none.
	Notes config.Faults
}

// Translate translates a file; name is for messages. Its error is config.Faults: each line says what could not be
// translated, where, and what to do; what could be is returned with it, unless the file cannot be read at all.
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
	if len(f.Faults) > 0 || !f.Decode("", f.Root, new(kubeletv1beta1.KubeletConfiguration)) {
		return nil, f.Faults
	}
	t := &Translation{node: &yaml.Node{Kind: yaml.MappingNode}}
	for i := 0; i+1 < len(f.Root.Content); i += 2 {
		t.field(f, f.Root.Content[i].Value, f.Root.Content[i+1])
	}
	t.Notes = f.Notes
	if yamltree.Child(t.node, "kubeReserved") == nil {
		t.Notes = append(t.Notes, config.Fault{File: name, Key: "kubeReserved", Text: "is not there: this kernel reserves something by default, see node.kubeReserved"})
	}
	if len(f.Faults) > 0 {
		return t, f.Faults
	}
	return t, nil
}

func (t *Translation) field(f *strictyaml.File, name string, value *yaml.Node) {
	r := rules[name]
	switch {
	case name == "apiVersion" || name == "kind" || nothing(value) && name != "resolvConf":
	case name == "featureGates":
		gates(f, value)
	case slices.Contains(r.harmless, plain(value)):
	case r.key != "" && known(r.key):
		t.take(f, name, r.key, value)
	case r.fault != "":
		f.Fault(name, "not supported: %s", r.fault)
	default:
		f.Note(name, "has no counterpart: %s", r.note)
	}
}

// gates are the same of all components here: one is so anyway, or is set by a key of the
// kernel that is not the node's, or cannot be had.
func gates(f *strictyaml.File, list *yaml.Node) {
	for i := 0; i+1 < len(list.Content); i += 2 {
		name, value := list.Content[i].Value, list.Content[i+1].Value
		switch same, err := features.IsSo(name, value); {
		case err != nil:
			f.Fault("featureGates", "not supported: %s", err)
		case !same:
			f.Note("featureGates", "%s is a gate of the whole kernel: add it to its features as %s: %s", name, name, value)
		}
	}
}

// known reports whether the kernel's configuration has a key of the node.
func known(key string) bool { return slices.Contains(config.NodeKeys(), key) }

// nothing tells the values by which a field says that it says nothing.
func nothing(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Tag == "!!null" || n.Value == "" || n.Value == "0" || n.Value == "0s"
	case yaml.MappingNode, yaml.SequenceNode:
		return len(n.Content) == 0
	}
	return false
}

// plain is a value as one word.
func plain(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	var v any
	if n.Decode(&v) != nil {
		return ""
	}
	return fmt.Sprint(v)
}

// take takes a field over under a key. The values have the same form, but for what is said here.
func (t *Translation) take(f *strictyaml.File, name, key string, value *yaml.Node) {
	value = bare(value)
	switch name {
	case "resolvConf":
		if value.Value == "" {
			f.Note(name, "is empty: pods get no DNS servers of the machine")
			value.SetString("/dev/null")
		}
	case "enforceNodeAllocatable":
		for i, item := range value.Content {
			if item.Value != "pods" && item.Value != "none" {
				f.Fault(fmt.Sprintf("%s[%d]", name, i), "not supported: limits of cgroups outside of pods are not set")
				return
			}
		}
	case "registerWithTaints":
		for _, taint := range value.Content {
			for i := 0; i+1 < len(taint.Content); {
				if taint.Content[i].Value == "timeAdded" {
					taint.Content = slices.Delete(taint.Content, i, i+2)
				} else {
					i += 2
				}
			}
		}
	}
	yamltree.Put(t.node, key, value)
}

// bare is a copy of a tree without comments, in which words stay words.
func bare(n *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Value: n.Value, Style: n.Style}
	for _, c := range n.Content {
		out.Content = append(out.Content, bare(c))
	}
	return out
}

// YAML is the translation as a configuration of its own.
func (t *Translation) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, word := range [][2]string{{"apiVersion", config.APIVersion}, {"kind", config.Kind}} {
		value := &yaml.Node{}
		value.SetString(word[1])
		yamltree.Put(root, word[0], value)
	}
	yamltree.Put(root, "node", t.node)
	return encode(root)
}

// Into is an existing configuration with the translation in its group node. Everything else stays, with its comments.
func (t *Translation) Into(name string, existing []byte) ([]byte, error) {
	f, err := strictyaml.Read(name, existing, "kind: "+config.Kind)
	if err != nil {
		return nil, err
	}
	node := yamltree.Child(f.Root, "node")
	if node == nil || node.Kind != yaml.MappingNode {
		node = &yaml.Node{Kind: yaml.MappingNode}
		yamltree.Put(f.Root, "node", node)
	}
	for i := 0; i+1 < len(t.node.Content); i += 2 {
		yamltree.Put(node, t.node.Content[i].Value, t.node.Content[i+1])
	}
	return encode(f.Root)
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
