package resultcache

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/scheduler/framework"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// narrowing is what pre-filter plugins said about a class: which nodes are worth
// asking about. The zero value leaves all.
type narrowing struct {
	answers []narrowAnswer    // by plugin
	allowed []bool            // by node index, as far as it goes; nil: all
	by      []string          // plugins that left nodes out
	stop    *framework.Status // one refused the pod
}

// narrowAnswer is one plugin's answer, with what it depends on.
type narrowAnswer struct {
	known    bool
	reads    uint64 // sum of the versions of the kinds that it reads
	nodes    uint64 // version of node objects
	position uint64 // in the change log; for scope cluster
	result   *contractv1.StepResult
}

// allows reports whether the predicates are asked about a node.
func (n *narrowing) allows(node uint32) bool {
	return n.stop == nil && (n.allowed == nil || int(node) < len(n.allowed) && n.allowed[node])
}

// narrow asks the pre-filter plugins whose answers may be others now, and lists
// all nodes if the outcome is another.
func (u *update) narrow(ctx context.Context) error {
	infos := u.at.Points[contractv1.Point_PRE_FILTER]
	if len(infos) == 0 {
		return nil
	}
	n := &u.narrowing
	if !u.known || len(n.answers) != len(infos) {
		n.answers = make([]narrowAnswer, len(infos))
	}
	call := &contractv1.CycleCall{Class: u.id}
	for i := range infos {
		a := &n.answers[i]
		reads := a.reads
		if !a.known || u.objects != u.view.ObjectVersion {
			reads = u.view.Version(infos[i].Reads)
		}
		if a.known && a.reads == reads && a.nodes == u.view.NodeVersion && (infos[i].Scope != "cluster" || a.position == u.view.Log.End()) {
			continue
		}
		if !framework.Concerns(u.shape.Pod, infos[i].Pods) {
			*a = narrowAnswer{known: true, reads: reads, nodes: u.view.NodeVersion, position: u.view.Log.End()}
			continue
		}
		*a = narrowAnswer{reads: reads, nodes: u.view.NodeVersion, position: u.view.Log.End()}
		call.Steps = append(call.Steps, contractv1.CycleStep{Point: contractv1.Point_PRE_FILTER, Plugin: i})
	}
	if len(call.Steps) == 0 {
		return nil
	}
	u.at.Cycler.Cycle(ctx, call)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if stop := u.at.Stop(call); stop != nil && !stop.Refused() {
		return stop.Err()
	}
	for k, r := range call.Results {
		// A plugin that was left out for a failure is asked again.
		a := &n.answers[call.Steps[k].Plugin]
		a.known, a.result = r.GetCode() != contractv1.Code_SKIP || len(r.GetReasons()) == 0, r
	}
	before := *n
	n.combine(infos, len(u.view.ByIndex))
	if (before.stop == nil) == (n.stop == nil) && (before.allowed == nil) == (n.allowed == nil) && slices.Equal(before.allowed, n.allowed) && u.known {
		u.message = "" // the words may be others
		return nil
	}
	u.message = ""
	for node := range u.view.ByIndex {
		if u.mark[node] != u.tick {
			u.mark[node] = u.tick
			u.list = append(u.list, uint32(node))
		}
	}
	return nil
}

// combine intersects the answers.
func (n *narrowing) combine(infos []contractv1.PointInfo, nodes int) {
	n.allowed, n.by, n.stop = nil, nil, nil
	for i := range n.answers {
		r := n.answers[i].result
		switch {
		case r == nil:
		case r.GetCode() == contractv1.Code_UNSCHEDULABLE || r.GetCode() == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE:
			n.stop = &framework.Status{Point: contractv1.Point_PRE_FILTER, Info: &infos[i], Code: r.GetCode(), Reasons: r.GetReasons()}
			return
		case r.GetNarrowed():
			mine := make([]bool, nodes)
			for _, node := range r.GetNodes() {
				if int(node) < nodes && (n.allowed == nil || n.allowed[node]) {
					mine[node] = true
				}
			}
			n.allowed = mine
			// In kube-scheduler's words, whose plugins have one name at all points.
			n.by = append(n.by, strings.TrimSuffix(infos[i].Name, "PreFilter"))
		}
	}
	slices.Sort(n.by) // the words name them so
}

// tell adds what pre-filter plugins, which left out nodes out, did to the words
// about a pod that fits nowhere: the message if they alone decided, or a count of nodes, and what can
// bring the pod back.
func (n *narrowing) tell(out int, infos []contractv1.PointInfo, reasons map[string]int, by *[]framework.Rejector) (refused string) {
	if n.stop == nil && n.allowed == nil {
		return ""
	}
	for i := range infos {
		if n.stop != nil && n.stop.Info.Name == infos[i].Name || slices.Contains(n.by, infos[i].Name) {
			*by = append(*by, framework.PointRejector(&infos[i], infos[i].Scope, false))
		}
	}
	if n.stop != nil {
		return n.stop.Reason()
	}
	if out > 0 {
		reasons[fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", n.by)] += out
	}
	return ""
}

// preScore tells the pre-score plugins which nodes fit, when anything is another
// than in the decision before.
func (u *update) preScore(ctx context.Context) error {
	if !u.at.Has(contractv1.Point_PRE_SCORE) || len(u.fit) == 0 || u.known && !u.fitOld && u.position == u.view.Log.End() {
		return nil
	}
	call := &contractv1.CycleCall{Steps: u.at.Steps(contractv1.Point_PRE_SCORE), Class: u.id, Nodes: u.fit}
	u.at.Cycler.Cycle(ctx, call)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if stop := u.at.Stop(call); stop != nil {
		return stop.Err()
	}
	return nil
}
