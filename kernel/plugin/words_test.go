package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/reasons"
)

// What a plugin says reaches users without what their terminals obey, bounded, and
// with a word where it has none; by either transport.
func TestReasonsAreClean(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			source := &testSource{delta: replica(4, 1)}
			h := runHost(t, testConfig(t, transport, "Swears"), source)
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), source.delta); err != nil {
				t.Fatal(err)
			}
			out := make([]uint32, 3)
			if err := p.Filter(t.Context(), 0, 7, []uint32{0, 1, 2}, out); err != nil {
				t.Fatal(err)
			}
			for k, want := range [][]string{{"\ufffd[2J\ufffd]0;title\ufffdbad\ufffdword", "second one"}, {"refused by plugin Swears"}} {
				if got := p.Reasons(0, out[k]); !slices.Equal(got, want) {
					t.Errorf("node %d: %q, want %q", k, got, want)
				}
			}
			if got := p.Reasons(0, out[2]); len(got) != 1 || len(got[0]) > reasons.MaxBytes || !strings.HasSuffix(got[0], "...") {
				t.Errorf("a reason of 25,000 bytes is told in %d", len(strings.Join(got, "")))
			}
			// It fails now: why is in its status, for kubectl to show.
			if err := p.Filter(t.Context(), 0, 7, []uint32{3}, out[:1]); err != nil || p.Reasons(0, out[0])[0] != "plugin Swears is not available" {
				t.Fatalf("%v, verdict %d", err, out[0])
			}
			told := ""
			for limit := time.Now().Add(2 * time.Minute); !strings.Contains(told, "on purpose") && time.Now().Before(limit); time.Sleep(5 * time.Millisecond) {
				for _, o := range h.Plugins() {
					if o.Name == "Swears" {
						told = o.Status.Message
					}
				}
			}
			if !strings.Contains(told, "on purpose") || strings.ContainsFunc(told, unicode.IsControl) {
				t.Errorf("its status says %q", told)
			}
		})
	}
}

// So do answers at points of the cycle, which a guest encodes itself.
func TestWordsAtPointsAreClean(t *testing.T) {
	const evil, clean = "\x1b[31mno\nentry\x00", "\ufffd[31mno entry\ufffd"
	pods := []*contractv1.QueuedPod{cyclePod("a")}
	at := func(point contractv1.Point, waiting ...*contractv1.WaitingPod) *contractv1.CycleRequest {
		return &contractv1.CycleRequest{Pods: pods, Nodes: []uint32{1}, Steps: []*contractv1.Step{{Point: point, Waiting: waiting}}}
	}
	check := func(req *contractv1.CycleRequest, r *contractv1.StepResult) {
		t.Helper()
		if err := checkCycle(req, &contractv1.CycleResponse{Results: []*contractv1.StepResult{r}}); err != nil {
			t.Fatal(err)
		}
	}
	refusal := &contractv1.StepResult{Code: contractv1.Code_UNSCHEDULABLE, Reasons: []string{evil, "", " "}}
	check(at(contractv1.Point_PRE_FILTER), refusal)
	entry := &contractv1.StepResult{Pods: []*contractv1.Admission{{Code: contractv1.Code_UNSCHEDULABLE, Reasons: []string{evil}}}}
	check(at(contractv1.Point_PRE_ENQUEUE), entry)
	victims := &contractv1.StepResult{Candidates: []*contractv1.Candidate{{Node: 1, Reasons: []string{evil}}}}
	check(at(contractv1.Point_VICTIMS), victims)
	held := &contractv1.StepResult{Code: contractv1.Code_SUCCESS, Decisions: []*contractv1.Decision{{Uid: "u", Reason: evil + strings.Repeat("x", 5000)}}}
	check(at(contractv1.Point_PERMIT_REVIEW, &contractv1.WaitingPod{Uid: "u"}), held)
	for what, got := range map[string][]string{
		"a refusal": refusal.Reasons, "an entry": entry.Pods[0].Reasons, "a candidate": victims.Candidates[0].Reasons,
	} {
		if !slices.Equal(got, []string{clean}) {
			t.Errorf("%s: %q, want %q", what, got, clean)
		}
	}
	if got := held.Decisions[0].Reason; !strings.HasPrefix(got, clean) || len(got) > reasons.MaxBytes {
		t.Errorf("a decision: %d bytes, %.40q", len(got), got)
	}
}
