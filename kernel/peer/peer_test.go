package peer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/scheduler/explain"
)

// difference is where Pintle and kube-scheduler say different things about a pod.
// Its key, of the cluster, the pod's number and what is different, stands in
// testdata/differences.txt if it shall be so.
type difference struct{ key, text string }

// Pintle's modern set gives kube-scheduler's answers: about every node the same
// verdict of every predicate in the same words, the same nodes that fit, the same
// first refusal, the same message, and the same score of every priority. A priority
// about which kube-scheduler has nothing to say gives all nodes the same.
func TestAnswersAreKubeSchedulers(t *testing.T) {
	if _, err := os.Stat("../../plugins/" + bundle); err != nil {
		t.Skip(err)
	}
	set := build(t)
	listed := listedDifferences(t)
	clusters := cases(t)
	// One host a configuration: those of one follow each other.
	config := func(c *cluster) string {
		data, _ := json.Marshal(c.Config)
		return string(data)
	}
	slices.SortStableFunc(clusters, func(a, b *cluster) int { return cmp.Compare(config(a), config(b)) })
	var host *served
	pods, families, asked, found := 0, map[string]int{}, map[string]bool{}, map[string]int{}
	shown := map[string]int{}
	for i, c := range clusters {
		if i == 0 || config(c) != config(clusters[i-1]) {
			if host != nil {
				host.stop()
			}
			host = set.serve(t, c.Config)
		}
		for k, x := range host.explain(t, c) {
			pods++
			asked[fmt.Sprintf("%s#%d", c.ID, k)] = true
			for _, d := range set.compare(c, k, x) {
				if _, ok := listed[d.key]; ok {
					listed[d.key] = true
					continue
				}
				families[c.Family]++
				what := d.key[strings.Index(d.key, " ")+1:]
				found[what]++
				if shown[what]++; shown[what] <= 4 {
					t.Errorf("%s: %s", d.key, d.text)
				}
			}
		}
	}
	if host != nil {
		host.stop()
	}
	for key, seen := range listed {
		if id, _, _ := strings.Cut(key, " "); !seen && asked[id] {
			t.Errorf("%s stands in testdata/differences.txt and is no difference: take it out", key)
		}
	}
	t.Logf("%d pods on %d clusters", pods, len(clusters))
	if len(found) > 0 {
		t.Errorf("differences by what is compared: %v; by family: %v", found, families)
	}
}

// listedDifferences reads testdata/differences.txt: a key, a colon, the reason.
func listedDifferences(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, reason, _ := strings.Cut(line, ": ")
		if reason == "" {
			t.Fatalf("testdata/differences.txt: %q has no reason", line)
		}
		out[key] = false
	}
	return out
}

// compare lists the differences about pod k of a cluster.
func (s *set) compare(c *cluster, k int, x *explain.Explanation) (out []difference) {
	want := c.Answers[k]
	differ := func(what, format string, args ...any) {
		out = append(out, difference{fmt.Sprintf("%s#%d %s", c.ID, k, what), fmt.Sprintf(format, args...)})
	}
	if want.Error != "" {
		return nil // kube-scheduler has no answer: it tries again later
	}
	complete := !slices.ContainsFunc(filters, func(name string) bool { return s.predicates[name] == "" })
	if want.Message != x.Message && complete {
		differ("message", "%q, want %q", x.Message, want.Message)
	}
	if x.Feasible == 0 && want.Preemption != nil {
		comparePreemption(want.Preemption, x.Preemption, differ)
	}
	if want.Whole != nil {
		if x.Feasible > 0 && s.predicates[want.Whole.Plugin] != "" {
			differ("whole "+want.Whole.Plugin, "%d nodes fit, want none: %v", x.Feasible, want.Whole.Reasons)
		}
		return out
	}
	fit, first := map[string]bool{}, map[string]string{}
	for i := range x.Details {
		d := &x.Details[i]
		if d.Fits {
			fit[d.Node] = true
		}
		for _, v := range d.Verdicts {
			name := v.Predicate
			if !slices.Contains(filters, name) {
				continue // a pre-filter's: kube-scheduler's answers are those of filters, for all nodes
			}
			reasons := slices.Sorted(slices.Values(v.Reasons))
			if v.Answer != explain.AnswerFits && first[d.Node] == "" {
				first[d.Node] = name
			}
			refusal := want.Refusals[d.Node][name]
			switch {
			case v.Answer == explain.AnswerFailed:
				differ("failure "+name, "%s: %v", d.Node, reasons)
			case refusal == nil && v.Answer != explain.AnswerFits:
				differ("filter "+name, "%s: refused (%v), kube-scheduler does not", d.Node, reasons)
			case refusal != nil && v.Answer == explain.AnswerFits:
				differ("filter "+name, "%s: fits, kube-scheduler refuses: %v", d.Node, refusal.Reasons)
			case refusal != nil && !slices.Equal(reasons, refusal.Reasons):
				differ("words "+name, "%s: %q, want %q", d.Node, reasons, refusal.Reasons)
			}
		}
	}
	wantFit := 0
	for _, n := range c.Nodes {
		if want.First[n.Name] == "" {
			wantFit++
		}
		if complete && (want.First[n.Name] == "") != fit[n.Name] {
			differ("fit", "%s: fits %v; refused first by %q, want %q", n.Name, fit[n.Name], first[n.Name], want.First[n.Name])
		} else if complete && want.First[n.Name] != first[n.Name] {
			differ("first", "%s: refused first by %q, want %q", n.Name, first[n.Name], want.First[n.Name])
		}
	}
	for n := range fit {
		if want.First[n] != "" {
			return out // normalised over other nodes
		}
	}
	if len(fit) != wantFit {
		return out
	}
	for name, own := range s.priorities {
		have := map[string]int64{}
		for i := range x.Details {
			for _, v := range x.Details[i].Scores {
				if v.Priority == own {
					have[x.Details[i].Node] = v.Score
				}
			}
		}
		// A plugin with nothing to say moves no node ahead of another.
		want, asked := want.Scores[name]
		if !asked {
			if values := slices.Compact(slices.Sorted(maps.Values(have))); len(values) > 1 {
				differ("score "+name, "%v, kube-scheduler has nothing to say", have)
			}
			continue
		}
		if !maps.Equal(have, want) {
			differ("score "+name, "%v, want %v", different(have, want), different(want, have))
		}
	}
	return out
}

// different is what of a is another in b.
func different(a, b map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for k, v := range a {
		if w, ok := b[k]; !ok || w != v {
			out[k] = v
		}
	}
	return out
}

// comparePreemption compares the node that post-filter plugins would make room on
// and the pods that would have to go. Of nodes that are equally good
// kube-scheduler takes any.
func comparePreemption(want *preemption, have *explain.Preemption, differ func(what, format string, args ...any)) {
	switch {
	case have == nil:
		differ("preemption", "no plugin was asked, want %+v", want)
	case len(want.Candidates) == 0 && have.Node != "":
		differ("preemption", "%s without %v, want none: %s", have.Node, have.Victims, want.Message)
	case len(want.Candidates) == 0 && strings.TrimPrefix(have.Message, "preemption: ") != want.Message:
		differ("preemption", "%q, want %q", have.Message, want.Message)
	case len(want.Candidates) > 0 && !slices.Contains(want.Chosen, have.Node):
		differ("preemption", "on %q (%s) of victims %v, want one of %v of %v", have.Node, have.Message, have.Victims, want.Chosen, want.Candidates)
	case len(want.Candidates) > 0 && !slices.Equal(slices.Sorted(slices.Values(have.Victims)), slices.Sorted(slices.Values(want.Candidates[have.Node].Victims))):
		differ("preemption", "on %s of victims %v, want %v", have.Node, have.Victims, want.Candidates[have.Node].Victims)
	}
}
