package yamltree

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestChild(t *testing.T) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte("a: 1\nlist:\n- x\n- y\n"), &doc); err != nil {
		t.Fatal(err)
	}
	top := doc.Content[0]
	list := Child(top, "list")
	for _, c := range []struct {
		n    *yaml.Node
		key  string
		want string // empty: nothing
		line int
	}{
		{top, "a", "1", 1}, {top, "b", "", 0}, {list, "1", "y", 4}, {list, "2", "", 0}, {list, "-1", "", 0}, {list, "x", "", 0}, {Child(top, "a"), "a", "", 0},
	} {
		got := Child(c.n, c.key)
		if c.want == "" && got != nil || c.want != "" && (got == nil || got.Value != c.want || got.Line != c.line) {
			t.Errorf("%s: %+v", c.key, got)
		}
	}
}
