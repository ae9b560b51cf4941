package interpodaffinityscore

import (
	"testing"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
	"pintle.dev/pintle/sdk/plugintest"
)

func term(weight int32, value string) *contractv1.PodAffinityTerm {
	return &contractv1.PodAffinityTerm{TopologyKey: "region", Namespaces: []string{"d"}, Weight: weight, HasSelector: true, Selector: &contractv1.Selector{MatchLabels: map[string]string{"security": value}}}
}

func preferred(terms ...*contractv1.PodAffinityTerm) *contractv1.PodAffinity {
	return &contractv1.PodAffinity{Preferred: terms}
}

// Raw scores; the host brings them to 0–100 from the smallest to the largest.
func TestScores(t *testing.T) {
	pod := func(security string, change func(*plugintest.Pod)) *plugintest.Pod {
		p := &plugintest.Pod{Namespace: "d", Uid: "u-" + security, Labels: map[string]string{"security": security}}
		if change != nil {
			change(p)
		}
		return p
	}
	near := func(a *contractv1.PodAffinity) func(*plugintest.Pod) {
		return func(p *plugintest.Pod) { p.PodAffinity = a }
	}
	far := func(a *contractv1.PodAffinity) func(*plugintest.Pod) {
		return func(p *plugintest.Pod) { p.PodAntiAffinity = a }
	}
	for _, c := range []struct {
		name, config      string
		china, india, pod *plugintest.Pod
		want              plugintest.Scores
	}{
		{"all nodes are same priority as Affinity is nil", "", pod("S1", nil), nil, pod("S2", nil), plugintest.Scores{"china": 0, "india": 0, "nowhere": 0}},
		{"Affinity: pod that matches topology key & pods in nodes will get high score comparing to others which doesn't match either pods in nodes or in topology key", "",
			pod("S1", nil), pod("S2", nil), pod("S1", near(preferred(term(5, "S1")))), plugintest.Scores{"china": 5, "india": 0, "nowhere": 0}},
		{"Affinity: different Label operators and values for pod affinity scheduling preference, including some match failures", "",
			pod("S1", nil), pod("S2", nil), pod("S1", near(preferred(term(8, "S1"), term(2, "S2")))), plugintest.Scores{"china": 8, "india": 2, "nowhere": 0}},
		{"Anti Affinity: pod that does not match existing pods in node will get high score", "", pod("S1", nil), pod("S2", nil), pod("S1", far(preferred(term(5, "S1")))), plugintest.Scores{"china": -5, "india": 0, "nowhere": 0}},
		{"Affinity symmetry: considered only the preferredDuringSchedulingIgnoredDuringExecution in pod affinity symmetry", "",
			pod("S1", near(preferred(term(8, "S2")))), pod("S3", near(preferred(term(4, "S2")))), pod("S2", nil), plugintest.Scores{"china": 8, "india": 4, "nowhere": 0}},
		{"Anti Affinity symmetry", "", pod("S1", far(preferred(term(8, "S2")))), nil, pod("S2", nil), plugintest.Scores{"china": -8, "india": 0, "nowhere": 0}},
		{"Affinity symmetry with required terms counts the hard weight", `{"hardPodAffinityWeight":50}`,
			pod("S1", near(&contractv1.PodAffinity{Required: []*contractv1.PodAffinityTerm{term(0, "S2")}})), nil, pod("S2", nil), plugintest.Scores{"china": 50, "india": 0, "nowhere": 0}},
		{"of which 0 switches it off", `{"hardPodAffinityWeight":0}`,
			pod("S1", near(&contractv1.PodAffinity{Required: []*contractv1.PodAffinityTerm{term(0, "S2")}})), nil, pod("S2", nil), plugintest.Scores{"china": 0, "india": 0, "nowhere": 0}},
		{"Ignore preferred terms of existing pods", `{"ignorePreferredTermsOfExistingPods":true}`, pod("S1", near(preferred(term(8, "S2")))), nil, pod("S2", nil), plugintest.Scores{"china": 0, "india": 0, "nowhere": 0}},
		{"but not for pods with preferred terms of their own", `{"ignorePreferredTermsOfExistingPods":true}`, pod("S1", near(preferred(term(8, "S2")))), nil, pod("S2", near(preferred(term(1, "S1")))), plugintest.Scores{"china": 9, "india": 0, "nowhere": 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := plugintest.NewCluster().Node("china", plugintest.Label("region", "china")).Node("india", plugintest.Label("region", "india")).Node("nowhere")
			if c.china != nil {
				cluster.Pod("china", c.china)
			}
			if c.india != nil {
				cluster.Pod("india", c.india)
			}
			p := New()
			if err := p.Configure([]byte(c.config)); err != nil {
				t.Fatal(err)
			}
			cluster.WantScores(t, p, c.pod, c.want)
		})
	}
}
