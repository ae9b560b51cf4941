package defaultpreemption

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk"
)

func pod(name string, priority int32, start int64, labels ...string) *sdk.Pod {
	p := &sdk.Pod{Namespace: "a", Name: name, UID: name, Priority: priority, StartTimeUnix: start, Labels: map[string]string{}}
	for _, l := range labels {
		p.Labels[l] = "yes"
	}
	return p
}

func node(name string, pods ...*sdk.Pod) *sdk.Node {
	n := &sdk.Node{Name: name, Pods: map[string]*sdk.Pod{}}
	for _, p := range pods {
		n.Pods[p.UID] = p
	}
	return n
}

func names(pods []*sdk.Pod) string {
	var list []string
	for _, p := range pods {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

func preemptor(priority int32) *sdk.QueuedPod { return &sdk.QueuedPod{Pod: pod("p", priority, 0)} }

// The order is by priority, then by start: what started last, or has not yet, is
// spared last.
func TestVictimsByImportance(t *testing.T) {
	n := node("n", pod("old", 1, 100), pod("new", 1, 200), pod("unstarted", 1, 0), pod("high", 5, 300), pod("equal", 10, 1), pod("negative", -5, 1))
	v := victims(&sdk.Cluster{}, preemptor(10), n)
	if got := names(v.Pods); got != "high old new unstarted negative" || v.Violations != 0 {
		t.Errorf("%s, %d violations", got, v.Violations)
	}
	v = victims(&sdk.Cluster{}, preemptor(-5), n)
	if len(v.Pods) != 0 || v.Reasons[0] != "No preemption victims found for incoming pod" {
		t.Errorf("%+v", v)
	}
}

// rank sorts what candidates are compared by; kube-scheduler's table of
// pickOneNodeForPreemption.
func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name       string
		candidates []sdk.Candidate
		want       string
	}{
		{"fewest violations", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 1, 1)}, Violations: 1},
			{Node: node("b"), Victims: []*sdk.Pod{pod("2", 100, 1), pod("3", 100, 1)}},
		}, "b"},
		{"lowest highest priority", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 1)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("2", 9, 1), pod("3", 9, 1)}},
		}, "b"},
		{"smallest sum", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 1), pod("2", 10, 1)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", 10, 1), pod("4", 9, 1)}},
		}, "b"},
		{"negative priorities count as pods", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", -10, 1), pod("2", -10, 1)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", -10, 1)}},
		}, "b"},
		{"latest start of the highest priority", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 5), pod("2", 1, 100)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", 10, 6), pod("4", 1, 1)}},
		}, "b"},
		{"the earliest of them counts", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 5), pod("2", 10, 100)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", 10, 6), pod("4", 10, 7)}},
		}, "b"},
		{"one that has not started is the latest", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 5)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", 10, 0)}},
		}, "b"},
		{"the first of equals", []sdk.Candidate{
			{Node: node("a"), Victims: []*sdk.Pod{pod("1", 10, 5)}},
			{Node: node("b"), Victims: []*sdk.Pod{pod("3", 10, 5)}},
		}, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, status := choose(&sdk.Tried{Cluster: &sdk.Cluster{}, Candidates: c.candidates})
			if status.Code != sdk.Success || n.Node.Name != c.want {
				t.Errorf("%v, %+v", n.Node, status)
			}
		})
	}
}

func TestSample(t *testing.T) {
	p := &plugin{percentage: 10, absolute: 3, offset: func(n int) int { return 2 % n }}
	sample, status := p.sample(&sdk.Failure{Cluster: &sdk.Cluster{}, Pod: preemptor(1), Helpful: 5})
	if status.Code != sdk.Success || sample.First != 2 || sample.Wanted != 3 {
		t.Errorf("%+v, %+v", sample, status)
	}
	if sample, _ := p.sample(&sdk.Failure{Cluster: &sdk.Cluster{}, Pod: preemptor(1), Helpful: 50}); sample.Wanted != 5 {
		t.Errorf("a tenth of 50 nodes: %+v", sample)
	}
	if sample, _ := p.sample(&sdk.Failure{Cluster: &sdk.Cluster{}, Pod: preemptor(1), Helpful: 2}); sample.Wanted != 2 {
		t.Errorf("of 2 nodes: %+v", sample)
	}
	if _, status := p.sample(&sdk.Failure{Cluster: &sdk.Cluster{}, Pod: preemptor(1)}); status.Code == sdk.Success {
		t.Errorf("no node helps: %+v", status)
	}
	never := preemptor(1)
	never.PreemptionPolicy = "Never"
	if _, status := p.sample(&sdk.Failure{Cluster: &sdk.Cluster{}, Pod: never, Helpful: 2}); status.Reasons[0] != "preemption: not eligible due to preemptionPolicy=Never." {
		t.Errorf("%+v", status)
	}
	refused := []sdk.RefusedNode{{Node: node("n")}}
	leaving := &sdk.Failure{Cluster: &sdk.Cluster{}, Pod: preemptor(5), Refused: refused, Helpful: 2, Nominated: refused[0].Node, Leaving: []*sdk.Pod{pod("v", 1, 1)}}
	if _, status := p.sample(leaving); len(status.Reasons) == 0 || status.Reasons[0] != "preemption: not eligible due to a terminating pod on the nominated node." {
		t.Errorf("%+v", status)
	}
	refused[0].Unresolvable = true // which no eviction makes fit: look elsewhere
	if sample, status := p.sample(leaving); status.Code != sdk.Success || sample.Wanted != 2 {
		t.Errorf("%+v", status)
	}
}

// A rank is the same however the victims are listed, and smaller where choose takes
// the candidate.
func TestRankGoesByTheVictimsAlone(t *testing.T) {
	list := []*sdk.Pod{pod("1", 10, 5), pod("2", 10, 3), pod("3", 1, 1), pod("4", -2, 0)}
	want := rank(&sdk.Candidate{Victims: list})
	for range list {
		list = append(slices.Clone(list[1:]), list[0])
		if got := rank(&sdk.Candidate{Victims: list}); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if got := rank(&sdk.Candidate{}); len(got) > 0 {
		t.Errorf("nobody has to go: %v", got)
	}
}

func TestConfigure(t *testing.T) {
	for config, want := range map[string]string{
		``: "10 100", `{}`: "10 100", `{"minCandidateNodesPercentage":0}`: "0 100", `{"minCandidateNodesAbsolute":7}`: "10 7",
		`{"minCandidateNodesPercentage":101}`: "not in the range [0, 100]", `{"minCandidateNodesAbsolute":-1}`: "not in the range [0, inf)",
		`{"minCandidateNodesPercentage":0,"minCandidateNodesAbsolute":0}`: "cannot be zero at the same time", `[]`: "cannot unmarshal",
	} {
		p := &plugin{}
		err := p.configure([]byte(config))
		if got := fmt.Sprint(p.percentage, p.absolute); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %s", config, got, err, want)
		}
	}
}

func TestNothingHelps(t *testing.T) {
	c := &sdk.Cluster{}
	s := nothing(c, nil)
	if s.Code != sdk.Unschedulable || s.Reasons[0] != "preemption: 0/0 nodes are available:" {
		t.Errorf("%+v", s)
	}
}
