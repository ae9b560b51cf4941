package interpodaffinity

import (
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

func term(key, label, value string, namespaces ...string) *contractv1.PodAffinityTerm {
	if namespaces == nil {
		namespaces = []string{"d"}
	}
	return &contractv1.PodAffinityTerm{TopologyKey: key, Namespaces: namespaces, HasSelector: true, Selector: &contractv1.Selector{MatchLabels: map[string]string{label: value}}}
}

func affinity(terms ...*contractv1.PodAffinityTerm) *contractv1.PodAffinity {
	return &contractv1.PodAffinity{Required: terms}
}

func TestFilter(t *testing.T) {
	s1, s2 := map[string]string{"service": "securityscan"}, map[string]string{"service": "antivirusscan"}
	pod := func(labels map[string]string, change func(*plugintest.Pod)) *plugintest.Pod {
		p := &plugintest.Pod{Namespace: "d", Uid: "u", Labels: labels}
		if change != nil {
			change(p)
		}
		return p
	}
	wants := func(terms ...*contractv1.PodAffinityTerm) func(*plugintest.Pod) {
		return func(p *plugintest.Pod) { p.PodAffinity = affinity(terms...) }
	}
	hates := func(terms ...*contractv1.PodAffinityTerm) func(*plugintest.Pod) {
		return func(p *plugintest.Pod) { p.PodAntiAffinity = affinity(terms...) }
	}
	selected := term("zone", "service", "securityscan", "none")
	selected.HasNamespaceSelector, selected.NamespaceSelector = true, &contractv1.Selector{MatchLabels: map[string]string{"team": "team1"}}
	everywhere := term("zone", "service", "securityscan", "none")
	everywhere.HasNamespaceSelector = true
	const ok = plugintest.Fits
	for _, c := range []struct {
		name     string
		existing *plugintest.Pod // on node a
		pod      *plugintest.Pod
		a, b, z  string // z has no labels but its own
	}{
		{"A pod that has no required pod affinity scheduling rules can schedule onto a node with no existing pods", nil, pod(s1, nil), ok, ok, ok},
		{"satisfies with requiredDuringSchedulingIgnoredDuringExecution in PodAffinity using In operator that matches the existing pod", pod(s1, nil), pod(s2, wants(term("zone", "service", "securityscan"))), ok, ok, ReasonAffinity},
		{"Does not satisfy the PodAffinity with labelSelector because of diff Namespace", pod(s1, nil), pod(s2, wants(term("zone", "service", "securityscan", "e"))), ReasonAffinity, ReasonAffinity, ReasonAffinity},
		{"Doesn't satisfy the PodAffinity because of unmatching labelSelector with the existing pod", pod(s1, nil), pod(s2, wants(term("zone", "service", "other"))), ReasonAffinity, ReasonAffinity, ReasonAffinity},
		{"satisfies the PodAffinity with different label Operators in multiple RequiredDuringSchedulingIgnoredDuringExecution", pod(s1, nil), pod(s2, wants(term("zone", "service", "securityscan"), term("host", "service", "securityscan"))), ok, ReasonAffinity, ReasonAffinity},
		{"one pod has to match all terms", pod(s1, nil), pod(s2, wants(term("zone", "service", "securityscan"), term("zone", "service", "antivirusscan"))), ReasonAffinity, ReasonAffinity, ReasonAffinity},
		{"the first pod of a group that wants itself, where all labels are", nil, pod(s1, wants(term("zone", "service", "securityscan"))), ok, ok, ReasonAffinity},
		{"satisfies the PodAffinity and PodAntiAffinity with the existing pod", pod(s1, nil), pod(s2, func(p *plugintest.Pod) {
			p.PodAffinity, p.PodAntiAffinity = affinity(term("zone", "service", "securityscan")), affinity(term("host", "service", "antivirusscan"))
		}), ok, ok, ReasonAffinity},
		{"satisfies the PodAffinity but doesn't satisfy the PodAntiAffinity with the existing pod", pod(s1, nil), pod(s2, func(p *plugintest.Pod) {
			p.PodAffinity, p.PodAntiAffinity = affinity(term("zone", "service", "securityscan")), affinity(term("host", "service", "securityscan"))
		}), ReasonAnti, ok, ReasonAffinity},
		{"anti-affinity by zone", pod(s1, nil), pod(s2, hates(term("zone", "service", "securityscan"))), ReasonAnti, ReasonAnti, ok},
		{"satisfies the PodAffinity and PodAntiAffinity but doesn't satisfy PodAntiAffinity symmetry with the existing pod", pod(s1, hates(term("host", "service", "antivirusscan"))), pod(s2, nil), ReasonExisting, ok, ok},
		{"PodAntiAffinity symmetry check a1: not selected", pod(s1, hates(term("host", "service", "other"))), pod(s2, nil), ok, ok, ok},
		{"the pod's own rules are told before those of others", pod(s1, hates(term("zone", "service", "antivirusscan"))), pod(s2, hates(term("host", "service", "securityscan"))), ReasonAnti, ReasonExisting, ok},
		{"affinity with namespaceSelector", pod(s1, nil), pod(s2, wants(selected)), ok, ok, ReasonAffinity},
		{"an empty namespaceSelector selects all namespaces", pod(s1, nil), pod(s2, wants(everywhere)), ok, ok, ReasonAffinity},
		{"anti-affinity of an existing pod with namespaceSelector", pod(s1, hates(with(selected, "antivirusscan"))), pod(s2, nil), ReasonExisting, ReasonExisting, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("a", plugintest.Label("zone", "1"), plugintest.Label("host", "a")).
				Node("b", plugintest.Label("zone", "1"), plugintest.Label("host", "b")).Node("z", plugintest.Label("host", "z")).
				Object(&contractv1.Object{Key: &contractv1.ObjectKey{Kind: "Namespace", Name: "d"}, Labels: map[string]string{"team": "team1"}})
			if c.existing != nil {
				cluster.Pod("a", c.existing)
			}
			cluster.WantVerdicts(t, New(), c.pod, plugintest.Verdicts{"a": c.a, "b": c.b, "z": c.z})
		})
	}
}

func with(t *contractv1.PodAffinityTerm, service string) *contractv1.PodAffinityTerm {
	return &contractv1.PodAffinityTerm{
		TopologyKey: t.TopologyKey, Namespaces: t.Namespaces, HasNamespaceSelector: t.HasNamespaceSelector, NamespaceSelector: t.NamespaceSelector,
		HasSelector: true, Selector: &contractv1.Selector{MatchLabels: map[string]string{"service": service}},
	}
}

func TestConfigure(t *testing.T) {
	if err := New().Configure([]byte(`{"hardPodAffinityWeight":101}`)); err == nil {
		t.Error("a weight of 101 is taken")
	}
}
