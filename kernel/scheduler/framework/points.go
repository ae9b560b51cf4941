package framework

import (
	"fmt"
	"strings"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Plugins is a policy as far as it has plugins at points of the cycle
// beside predicates and priorities. The zero value has none.
type Plugins struct {
	Cycler contractv1.Cycler
	Points contractv1.Points
}

func PluginsOf(policy contractv1.Policy) Plugins {
	if cycler, ok := policy.(contractv1.Cycler); ok {
		if points := cycler.Points(); len(points) > 0 {
			return Plugins{cycler, points}
		}
	}
	return Plugins{}
}

// Has reports whether a plugin is asked at one of the points.
func (p Plugins) Has(points ...contractv1.Point) bool {
	if p.Cycler == nil {
		return false
	}
	for _, at := range points {
		if len(p.Points[at]) > 0 {
			return true
		}
	}
	return false
}

// Steps are one step for each plugin at the points.
func (p Plugins) Steps(points ...contractv1.Point) []contractv1.CycleStep {
	var steps []contractv1.CycleStep
	for _, at := range points {
		for i := range p.Points[at.Of()] {
			steps = append(steps, contractv1.CycleStep{Point: at, Plugin: i})
		}
	}
	return steps
}

func (p Plugins) Name(step contractv1.CycleStep) string { return p.Info(step).Name }

// Info describes the plugin of a step.
func (p Plugins) Info(step contractv1.CycleStep) *contractv1.PointInfo {
	return &p.Points[step.Point.Of()][step.Plugin]
}

// DefaultBinder is who writes the binding where no plugin does, in
// kube-scheduler's words.
const DefaultBinder = "DefaultBinder"

// Outcome is what a plugin at a point of the cycle said that kept a pod from
// its node, held it up, or gave it one.
type Outcome struct {
	Point   string   `json:"point"` // as a profile names it: preFilter, permit …
	Plugin  string   `json:"plugin"`
	Code    string   `json:"code"` // as the scheduling framework names it: Unschedulable, Wait …
	Reasons []string `json:"reasons,omitempty"`
}

// PointNames are the points as profiles name them.
var PointNames = map[contractv1.Point]string{
	contractv1.Point_PRE_ENQUEUE: "preEnqueue", contractv1.Point_QUEUE_SORT: "queueSort", contractv1.Point_PRE_FILTER: "preFilter",
	contractv1.Point_POST_FILTER: "postFilter", contractv1.Point_PRE_SCORE: "preScore", contractv1.Point_RESERVE: "reserve",
	contractv1.Point_VICTIMS: "postFilter", contractv1.Point_CHOOSE: "postFilter", contractv1.Point_QUEUEING_HINT: "queueingHint",
	contractv1.Point_UNRESERVE: "reserve", contractv1.Point_PERMIT: "permit", contractv1.Point_PERMIT_REVIEW: "permit",
	contractv1.Point_PRE_BIND: "preBind", contractv1.Point_BIND: "bind", contractv1.Point_POST_BIND: "postBind",
}

// The points that are asked a node, as kube-scheduler's metrics name them.
const (
	TitleFilter = "Filter"
	TitleScore  = "Score"
)

// PointTitle are the points as kube-scheduler's errors name them.
func PointTitle(at contractv1.Point) string {
	name := PointNames[at]
	return strings.ToUpper(name[:1]) + name[1:]
}

// Status is the answer that ended the steps of a call.
type Status struct {
	Point   contractv1.Point
	Info    *contractv1.PointInfo
	Code    contractv1.Code
	Reasons []string
}

// Stop returns what ended the steps of a call, or nil.
func (p Plugins) Stop(c *contractv1.CycleCall) *Status {
	if len(c.Results) == 0 {
		return nil
	}
	step, last := c.Steps[len(c.Results)-1], c.Results[len(c.Results)-1]
	if !step.Point.Stops(last.GetCode()) {
		return nil
	}
	return &Status{step.Point, &p.Points[step.Point.Of()][step.Plugin], last.GetCode(), last.GetReasons()}
}

func (s *Status) Outcome() Outcome {
	return Outcome{Point: PointNames[s.Point], Plugin: s.Info.Name, Code: contractv1.CodeNames[s.Code], Reasons: s.Reasons}
}

// Reason is the answer in words.
func (s *Status) Reason() string {
	if len(s.Reasons) == 0 && s.Code == contractv1.Code_SKIP {
		return "it skips the pod, and no other plugin binds: add " + DefaultBinder + " to the profile's bind"
	}
	if len(s.Reasons) == 0 {
		return "refused by plugin " + s.Info.Name
	}
	return strings.Join(s.Reasons, ", ")
}

// ReasonCounts are its reasons as those of one node.
func (s *Status) ReasonCounts() map[string]int {
	counts := map[string]int{}
	for _, reason := range s.Reasons {
		counts[reason]++
	}
	if len(counts) == 0 {
		counts[s.Reason()] = 1
	}
	return counts
}

// Refused reports whether the plugin refused the pod; otherwise it failed.
func (s *Status) Refused() bool {
	return s.Code == contractv1.Code_UNSCHEDULABLE || s.Code == contractv1.Code_UNSCHEDULABLE_AND_UNRESOLVABLE
}

// Err is the answer as kube-scheduler words a plugin's error.
func (s *Status) Err() error {
	return fmt.Errorf("running %s plugin %q: %s", PointTitle(s.Point), s.Info.Name, s.Reason())
}

// Failure is that of a pod which the plugin refused. Of one that says nothing of
// events, whatever changes the cluster may help, also pods that come to be.
func (s *Status) Failure() *Failure {
	return NewFailure([]Rejector{PointRejector(s.Info, string(sdk.ScopeCluster), true)})
}
