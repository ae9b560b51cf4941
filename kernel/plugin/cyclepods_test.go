package plugin

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// TestLogNamesThePod: a question about a pod that a plugin answers with an error, or does
// not answer, is in the log with the pod, whose name is what its owner chose.
func TestLogNamesThePod(t *testing.T) {
	log := &logBuffer{}
	u := &unit{log: slog.New(slog.NewTextHandler(log, nil)), call: time.Minute, changed: func() {}}
	request := func(pods ...*contractv1.QueuedPod) *contractv1.CycleRequest {
		return &contractv1.CycleRequest{Steps: []*contractv1.Step{{Plugin: "A", Point: contractv1.Point_RESERVE}}, Pods: pods}
	}
	ask := func(req *contractv1.CycleRequest, answer *contractv1.CycleResponse, err error) {
		t.Helper()
		u.mu.Lock()
		defer u.mu.Unlock()
		u.stats = map[string]*stats{"A": {}} // a circuit that has seen nothing
		if _, got := u.noted(t.Context(), nil, req, cycleAnswer{response: answer}, err); (got != nil) != (err != nil) {
			t.Errorf("%v of %v", got, err)
		}
	}
	failed := func(why string) *contractv1.CycleResponse {
		return &contractv1.CycleResponse{Results: []*contractv1.StepResult{{Code: contractv1.Code_ERROR, Reasons: []string{why}}}}
	}
	ask(request(cyclePod("one")), nil, errors.New("not now"))
	ask(request(cyclePod("two"), cyclePod("three"), cyclePod("four")), nil, errors.New("not here"))
	ask(request(cyclePod("five")), failed("no seat"), nil)
	ask(request(), failed("no pod"), nil)
	ask(request(cyclePod("six\x1b[2Jlevel=ERROR")), failed("odd name"), nil)
	for _, line := range []string{
		`msg="plugin did not answer a question" pod=d/one error="plugin A: not now"`,
		`msg="plugin did not answer a question" pod=d/two morePods=2 error="plugin A: not here"`,
		`msg="plugin answered with an error" pod=d/five error="plugin A: no seat"`,
		`msg="plugin answered with an error" error="plugin A: no pod"`,
	} {
		if !log.has(line) {
			t.Errorf("the log lacks %s:\n%s", line, &log.text)
		}
	}
	if log.has("\x1b") || log.has(`\x1b`) || strings.Count(log.text.String(), "level=WARN") != 5 {
		t.Errorf("log:\n%s", &log.text)
	}
}
