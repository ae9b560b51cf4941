package yamltree

import "go.yaml.in/yaml/v3"

// Put sets a key of a mapping.
func Put(n *yaml.Node, key string, value *yaml.Node) {
	n.Style &^= yaml.FlowStyle
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = value
			return
		}
	}
	k := &yaml.Node{}
	k.SetString(key)
	n.Content = append(n.Content, k, value)
}
