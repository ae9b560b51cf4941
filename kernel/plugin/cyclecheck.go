package plugin

import (
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/reasons"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	// maxWait is the longest time that a pod may wait for a permit, as in
	// kube-scheduler.
	maxWait = 15 * time.Minute
	// maxNodes bounds node indexes, as in the sdk.
	maxNodes      = 1 << 20
	maxKeyText    = 253
	maxRank       = 64
	maxVictims    = 4096
	maxAssumed    = 1024
	maxAnnotation = 256 << 10
)

// checkCycle refuses a response that cannot be one, and brings into range what
// can: a plugin that answers out of range is not to be trusted with another call.
func checkCycle(req *contractv1.CycleRequest, resp *contractv1.CycleResponse) error {
	steps, results := req.GetSteps(), resp.GetResults()
	if len(results) == 0 || len(results) > len(steps) {
		return guest.Broken("answer out of range: %d results for %d steps", len(results), len(steps))
	}
	for k, r := range results {
		at := steps[k].GetPoint()
		if r == nil {
			return guest.Broken("answer out of range: no result for step %d", k)
		}
		if err := checkResult(req, steps[k], r); err != nil {
			return err
		}
		if stops := at.Stops(r.GetCode()); stops != (k == len(results)-1) && (stops || len(results) < len(steps)) {
			return guest.Broken("answer out of range: %d results for %d steps, of which step %d is answered %s", len(results), len(steps), k, r.GetCode())
		}
	}
	return nil
}

func checkResult(req *contractv1.CycleRequest, step *contractv1.Step, r *contractv1.StepResult) error {
	at := step.GetPoint()
	if !checkReasons(r.GetCode(), r.GetReasons()) || r.GetCode() == contractv1.Code_WAIT && at != contractv1.Point_PERMIT {
		return guest.Broken("answer out of range: code %d with %d reasons", r.GetCode(), len(r.GetReasons()))
	}
	for _, n := range r.GetNodes() {
		if n >= maxNodes {
			return guest.Broken("answer out of range: node %d", n)
		}
	}
	if r.GetCode() == contractv1.Code_SUCCESS {
		switch {
		case at == contractv1.Point_QUEUE_SORT && len(r.GetKeys()) != len(req.GetPods()):
			return guest.Broken("answer out of range: %d keys for %d pods", len(r.GetKeys()), len(req.GetPods()))
		case at == contractv1.Point_PRE_ENQUEUE && len(r.GetPods()) != len(req.GetPods()):
			return guest.Broken("answer out of range: %d admissions for %d pods", len(r.GetPods()), len(req.GetPods()))
		case at == contractv1.Point_POST_FILTER && r.GetNomination() == nil && r.GetTrial() == nil,
			at == contractv1.Point_CHOOSE && r.GetNomination() == nil:
			return guest.Broken("answer out of range: success without a nomination")
		case at == contractv1.Point_QUEUEING_HINT && len(r.GetHelps()) != len(req.GetPods()):
			return guest.Broken("answer out of range: hints of %d pods for %d", len(r.GetHelps()), len(req.GetPods()))
		case at == contractv1.Point_RANK && len(r.GetRanks()) != len(req.GetCandidates()):
			return guest.Broken("answer out of range: %d ranks for %d candidates", len(r.GetRanks()), len(req.GetCandidates()))
		case r.GetTrial().GetSampled() && r.GetTrial().GetFirst() >= req.GetHelpful():
			return guest.Broken("answer out of range: it begins at node %d of %d", r.GetTrial().GetFirst(), req.GetHelpful())
		case at == contractv1.Point_VICTIMS && len(r.GetCandidates()) != len(req.GetNodes()):
			return guest.Broken("answer out of range: %d candidates for %d nodes", len(r.GetCandidates()), len(req.GetNodes()))
		}
	}
	for _, n := range r.GetHelps() {
		if int(n) > len(req.GetEvents()) {
			return guest.Broken("answer out of range: event %d of %d", n, len(req.GetEvents()))
		}
	}
	for _, n := range r.GetTrial().GetNodes() {
		if n >= maxNodes {
			return guest.Broken("answer out of range: node %d", n)
		}
	}
	for k, c := range r.GetCandidates() {
		if k < len(req.GetNodes()) && c.GetNode() != req.GetNodes()[k] || len(c.GetVictims()) > maxVictims || int(c.GetViolations()) > len(c.GetVictims()) {
			return guest.Broken("answer out of range: candidate %d is node %d with %d victims", k, c.GetNode(), len(c.GetVictims()))
		}
		if !checkReasons(contractv1.Code_UNSCHEDULABLE, c.GetReasons()) {
			return guest.Broken("answer out of range: candidate %d has too many reasons", k)
		}
	}
	for k, rank := range r.GetRanks() {
		if len(rank.GetNumbers()) > maxRank {
			return guest.Broken("answer out of range: candidate %d has a rank of %d numbers", k, len(rank.GetNumbers()))
		}
	}
	for _, key := range r.GetKeys() {
		if len(key.GetText()) > maxKeyText {
			return guest.Broken("answer out of range: a key of %d bytes", len(key.GetText()))
		}
	}
	for _, a := range r.GetPods() {
		if !checkReasons(a.GetCode(), a.GetReasons()) || a.GetCode() == contractv1.Code_WAIT {
			return guest.Broken("answer out of range: code %d with %d reasons", a.GetCode(), len(a.GetReasons()))
		}
	}
	if n := r.GetNomination(); n.GetNode() >= maxNodes || len(n.GetVictims()) > maxVictims {
		return guest.Broken("answer out of range: node %d with %d victims", n.GetNode(), len(n.GetVictims()))
	}
	if len(r.GetDecisions()) > 2*len(step.GetWaiting())+maxVictims {
		return guest.Broken("answer out of range: %d decisions about %d pods", len(r.GetDecisions()), len(step.GetWaiting()))
	}
	for _, d := range r.GetDecisions() {
		if d != nil {
			d.Reason = reasons.Text(d.GetReason())
		}
	}
	if err := checkAssumed(at, r.GetAssumed()); err != nil {
		return err
	}
	size := 0
	for k, v := range r.GetAnnotations() {
		size += len(k) + len(v)
	}
	if size > maxAnnotation {
		return guest.Broken("answer out of range: %d bytes of annotations", size)
	}
	r.Reasons = reasons.List(r.GetReasons())
	for _, a := range r.GetPods() {
		a.Reasons = reasons.List(a.GetReasons())
	}
	for _, c := range r.GetCandidates() {
		c.Reasons = reasons.List(c.GetReasons())
	}
	r.WaitNanoseconds = min(max(r.GetWaitNanoseconds(), 0), int64(maxWait))
	return nil
}

// checkAssumed refuses what a plugin cannot have the host assume.
func checkAssumed(at contractv1.Point, assumed []*contractv1.Assumption) error {
	if len(assumed) > maxAssumed || len(assumed) > 0 && at != contractv1.Point_RESERVE {
		return guest.Broken("answer out of range: %d assumptions", len(assumed))
	}
	for _, a := range assumed {
		size := 0
		for k, v := range a.GetAnnotations() {
			size += len(k) + len(v)
		}
		if a.GetKey().GetKind() == "" || a.GetKey().GetName() == "" || size > maxAnnotation {
			return guest.Broken("answer out of range: an assumption about %s %q with %d bytes", a.GetKey().GetKind(), a.GetKey().GetName(), size)
		}
	}
	return nil
}

// checkReasons reports whether a code is one and its reasons are of a size that
// can be told.
func checkReasons(code contractv1.Code, list []string) bool {
	if _, known := contractv1.Code_name[int32(code)]; !known {
		return false
	}
	size := 0
	for _, r := range list {
		size += len(r) + 1
	}
	return size <= guest.MaxReasonBytes
}
