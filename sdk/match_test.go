package sdk

import "testing"

// PRI-29: the six operators, on labels that are there, missing and no number.
func TestRequirementMatches(t *testing.T) {
	labels := map[string]string{"zone": "a", "cores": "8", "word": "eight"}
	for _, c := range []struct {
		name string
		r    Requirement
		want bool
	}{
		{"in", Requirement{"zone", "In", []string{"b", "a"}}, true},
		{"in other", Requirement{"zone", "In", []string{"b"}}, false},
		{"in missing", Requirement{"none", "In", []string{""}}, false},
		{"not in", Requirement{"zone", "NotIn", []string{"b"}}, true},
		{"not in same", Requirement{"zone", "NotIn", []string{"a"}}, false},
		{"not in missing", Requirement{"none", "NotIn", []string{"a"}}, true},
		{"exists", Requirement{"zone", "Exists", nil}, true},
		{"exists missing", Requirement{"none", "Exists", nil}, false},
		{"does not exist", Requirement{"zone", "DoesNotExist", nil}, false},
		{"does not exist missing", Requirement{"none", "DoesNotExist", nil}, true},
		{"gt", Requirement{"cores", "Gt", []string{"7"}}, true},
		{"gt equal", Requirement{"cores", "Gt", []string{"8"}}, false},
		{"lt", Requirement{"cores", "Lt", []string{"10"}}, true},
		{"lt equal", Requirement{"cores", "Lt", []string{"8"}}, false},
		{"gt word", Requirement{"word", "Gt", []string{"1"}}, false},
		{"gt two values", Requirement{"cores", "Gt", []string{"1", "2"}}, false},
		{"unknown operator", Requirement{"zone", "Like", []string{"a"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.r.Matches(labels); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestSelectorMatches(t *testing.T) {
	labels := map[string]string{"app": "web"}
	var none *Selector
	for name, c := range map[string]struct {
		s    *Selector
		want bool
	}{
		"nil":        {none, false},
		"empty":      {&Selector{}, true},
		"label":      {&Selector{MatchLabels: map[string]string{"app": "web"}}, true},
		"other":      {&Selector{MatchLabels: map[string]string{"app": "db"}}, false},
		"missing":    {&Selector{MatchLabels: map[string]string{"tier": ""}}, false},
		"expression": {&Selector{MatchExpressions: []Requirement{{"app", "Exists", nil}}}, true},
		"both":       {&Selector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []Requirement{{"app", "DoesNotExist", nil}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.s.Matches(labels); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNodeAffinityMatchesRequired(t *testing.T) {
	node := &Node{Name: "n1", Labels: map[string]string{"zone": "a"}}
	zone := func(v string) NodeSelectorTerm {
		return NodeSelectorTerm{MatchExpressions: []Requirement{{"zone", "In", []string{v}}}}
	}
	field := func(op string, names ...string) NodeSelectorTerm {
		return NodeSelectorTerm{MatchFields: []Requirement{{"metadata.name", op, names}}}
	}
	for name, c := range map[string]struct {
		a    *NodeAffinity
		want bool
	}{
		"nil":                  {nil, true},
		"none required":        {&NodeAffinity{Required: []NodeSelectorTerm{zone("b")}}, true},
		"required empty list":  {&NodeAffinity{HasRequired: true}, false},
		"empty term":           {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{{}}}, false},
		"terms are ored":       {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{zone("b"), zone("a")}}, true},
		"no term matches":      {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{zone("b")}}, false},
		"field name":           {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{field("In", "n1")}}, true},
		"field other name":     {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{field("In", "n2")}}, false},
		"field not in":         {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{field("NotIn", "n1")}}, false},
		"field other operator": {&NodeAffinity{HasRequired: true, Required: []NodeSelectorTerm{field("Exists")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.a.MatchesRequired(node); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPodTolerates(t *testing.T) {
	taint := &Taint{Key: "disk", Value: "slow", Effect: "NoSchedule"}
	for name, c := range map[string]struct {
		t    Toleration
		want bool
	}{
		"equal":           {Toleration{"disk", "Equal", "slow", "NoSchedule"}, true},
		"empty operator":  {Toleration{"disk", "", "slow", ""}, true},
		"other value":     {Toleration{"disk", "Equal", "fast", ""}, false},
		"other effect":    {Toleration{"disk", "Exists", "", "NoExecute"}, false},
		"exists":          {Toleration{"disk", "Exists", "", ""}, true},
		"everything":      {Toleration{"", "Exists", "", ""}, true},
		"other key":       {Toleration{"cpu", "Exists", "", ""}, false},
		"unknown operato": {Toleration{"disk", "Near", "slow", ""}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &Pod{Tolerations: []Toleration{c.t}}
			if got := pod.Tolerates(taint); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
