package nodeselector

import (
	"encoding/json"
	"testing"

	"pintle.dev/pintle/sdk"
)

func expression(key, operator string, values ...string) sdk.NodeSelectorTerm {
	return sdk.NodeSelectorTerm{MatchExpressions: []sdk.Requirement{{Key: key, Operator: operator, Values: values}}}
}

func field(operator string, values ...string) sdk.NodeSelectorTerm {
	return sdk.NodeSelectorTerm{MatchFields: []sdk.Requirement{{Key: "metadata.name", Operator: operator, Values: values}}}
}

func TestRequired(t *testing.T) {
	node := &sdk.Node{Name: "n1", Labels: map[string]string{"foo": "bar", "cores": "7"}}
	required := func(terms ...sdk.NodeSelectorTerm) *sdk.Pod {
		return &sdk.Pod{NodeAffinity: &sdk.NodeAffinity{HasRequired: true, Required: terms}}
	}
	both := required(expression("foo", "In", "bar"))
	both.NodeSelector = map[string]string{"foo": "baz"}
	for _, c := range []struct {
		name string
		pod  *sdk.Pod
		want bool
	}{
		{"no selector", &sdk.Pod{}, true},
		{"same labels", &sdk.Pod{NodeSelector: map[string]string{"foo": "bar"}}, true},
		{"missing labels", &sdk.Pod{NodeSelector: map[string]string{"baz": "x"}}, false},
		{"Pod with matchExpressions using In operator that matches the existing node", required(expression("foo", "In", "bar", "value2")), true},
		{"Pod with matchExpressions using Gt operator that matches the existing node", required(expression("cores", "Gt", "5")), true},
		{"Gt of no number selects nothing", required(expression("cores", "Gt", "many")), false},
		{"an unknown operator selects nothing", required(expression("foo", "Like", "b")), false},
		{"In without values selects nothing", required(expression("foo", "In")), false},
		{"NotIn with a value that no label can have selects nothing", required(expression("foo", "NotIn", "a b")), false},
		{"a term that cannot be read does not spoil the others", required(expression("foo", "In"), expression("foo", "Exists")), true},
		{"Pod with nil []NodeSelectorTerm in affinity, can't match the node's labels and won't schedule onto the node", required(), false},
		{"Pod with empty MatchExpressions is not a valid value will match no objects and won't schedule onto the node", required(sdk.NodeSelectorTerm{}), false},
		{"the name", required(field("In", "n1")), true},
		{"another name", required(field("In", "n2")), false},
		{"two names in a field are none", required(field("In", "n1", "n2")), false},
		{"selector and affinity are ANDed", both, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Of(c.pod).Matches(node); got != c.want {
				t.Errorf("matches: %v", got)
			}
		})
	}
}

func TestWeight(t *testing.T) {
	terms := Preferred(&sdk.NodeAffinity{Preferred: []sdk.PreferredTerm{
		{Weight: 5, Term: expression("foo", "Exists")}, {Weight: 7, Term: expression("foo", "In", "x")}, {Weight: 9, Term: sdk.NodeSelectorTerm{}}, {Weight: 3, Term: expression("foo", "In", "bar")},
	}})
	if got := Weight(terms, &sdk.Node{Labels: map[string]string{"foo": "bar"}}); got != 8 || len(terms) != 3 {
		t.Errorf("weight %d of %d terms", got, len(terms))
	}
	if Preferred(nil) != nil {
		t.Error("no affinity prefers something")
	}
}

// Whatever a configuration holds, reading it ends, and what is accepted can be matched.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a/b","operator":"In","values":["c"]}]}]}}`))
	f.Add([]byte(`{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}}]}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var d *Document
		if json.Unmarshal(data, &d) != nil {
			return
		}
		affinity := d.Affinity()
		if Check(affinity) == nil {
			New(affinity).Matches(&sdk.Node{Name: "n", Labels: map[string]string{"a/b": "c"}})
			Weight(Preferred(affinity), &sdk.Node{Name: "n"})
		}
	})
}
