package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"pintle.dev/pintle/kernel/plugin/guest"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/observe"
	"pintle.dev/pintle/kernel/reasons"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// bindingFactor: a process may take this many times a call for what runs beside
// the scheduling, which may have to ask others. A module can ask nobody.
const bindingFactor = 100

// pointKinds is the kind of the plugins at each point that has an entry of its
// own in a profile.
var pointKinds = map[contractv1.Point]string{
	contractv1.Point_PRE_ENQUEUE: sdk.KindPreEnqueue,
	contractv1.Point_QUEUE_SORT:  sdk.KindQueueSort,
	contractv1.Point_PRE_FILTER:  sdk.KindPreFilter,
	contractv1.Point_POST_FILTER: sdk.KindPostFilter,
	contractv1.Point_PRE_SCORE:   sdk.KindPreScore,
	contractv1.Point_RESERVE:     sdk.KindReserve,
	contractv1.Point_PERMIT:      sdk.KindPermit,
	contractv1.Point_PRE_BIND:    sdk.KindPreBind,
	contractv1.Point_BIND:        sdk.KindBind,
	contractv1.Point_POST_BIND:   sdk.KindPostBind,
}

// callName is what a span calls a question at a point.
func callName(at contractv1.Point) string {
	if at == contractv1.Point_QUEUEING_HINT {
		return "queueing-hint"
	}
	return pointKinds[at.Of()]
}

var _ contractv1.Cycler = (*Policy)(nil)

// Points are the plugins of the profile at the points of the cycle.
func (p *Policy) Points() contractv1.Points { return p.points }

// Cycle asks the steps of c; see contractv1.Cycler.
func (p *Policy) Cycle(ctx context.Context, c *contractv1.CycleCall) {
	c.Results = c.Results[:0]
	for len(c.Results) < len(c.Steps) {
		first := len(c.Results)
		unit := p.at(c.Steps[first]).unit
		last := first + 1
		for last < len(c.Steps) && p.at(c.Steps[last]).unit == unit && c.Steps[last].Point.Beside() == c.Steps[first].Point.Beside() {
			last++
		}
		results, err := unit.cycle(ctx, p, c, c.Steps[first:last])
		if err != nil {
			if contractv1.Ended(ctx) {
				err = ctx.Err()
			}
			if errors.Is(err, contractv1.Overtaken{}) {
				return // it was not asked
			}
			results = append(results, &contractv1.StepResult{Code: contractv1.Code_ERROR, Reasons: []string{err.Error()}})
		}
		for k, r := range results {
			step := c.Steps[first+k]
			if r.GetCode() == contractv1.Code_ERROR && p.points[step.Point.Of()][step.Plugin].IgnoreFailure && !contractv1.Ended(ctx) {
				r.Code = contractv1.Code_SKIP
			}
			c.Results = append(c.Results, r)
			if step.Point.Stops(r.GetCode()) {
				return
			}
		}
	}
}

// at is where the plugin of a step lives.
func (p *Policy) at(step contractv1.CycleStep) place {
	return p.places[step.Point.Of()][step.Plugin]
}

// cycle asks steps of the unit's own plugins in one crossing. With an error,
// which is about the step behind the results, nothing behind it was asked.
func (u *unit) cycle(ctx context.Context, p *Policy, c *contractv1.CycleCall, steps []contractv1.CycleStep) ([]*contractv1.StepResult, error) {
	req := &contractv1.CycleRequest{
		Pods: c.Pods, Class: c.Class, Node: c.Node, NodeName: c.NodeName, HasNode: c.HasNode,
		Nodes: c.Nodes, Refused: c.Refused, Refusals: c.Refusals,
		Events: c.Events, Classes: c.Classes, Standing: c.Standing, Candidates: c.Candidates, Helpful: c.Helpful,
	}
	for _, s := range steps {
		name := p.at(s).name
		step := &contractv1.Step{Plugin: name, Point: s.Point, Waiting: s.Waiting}
		if s.Point.Beside() {
			step.Socket = u.socket(guest.PluginOf(name))
		}
		req.Steps = append(req.Steps, step)
	}
	for k := range req.Steps {
		if err := u.admit(req.Steps[k].Plugin, time.Now()); err != nil {
			if k == 0 {
				return nil, err
			}
			req.Steps = req.Steps[:k] // it is told about when it is the first
			break
		}
	}
	if steps[0].Point.Beside() {
		return u.cycleBeside(ctx, req)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	g, err := u.ready(ctx, p.replica)
	if err != nil {
		return nil, err
	}
	u.asking = ctx
	defer u.asked()
	if req.Generation = p.replica; u.blind {
		req.Generation = 0
	}
	if c, ok := g.(guest.Carrier); ok {
		if req.Deltas, err = c.Carry(u.queue); err != nil {
			return nil, err
		}
		results, err := u.crossed(ctx, g, req, u.call)
		if err == nil {
			c.Carried(p.replica)
			u.queue, u.queued, u.sent = nil, 0, p.replica
		} else if len(req.Deltas) > 0 && u.guest == g {
			u.applyFailed(ctx, err)
		}
		return results, err
	}
	if err := u.drain(ctx); err != nil {
		return nil, err
	}
	return u.crossed(ctx, g, req, u.call)
}

// cycleBeside asks about a binding. A process is asked without a lock, as many
// calls at once as there are; a module when it does nothing else, and it is busy for
// others when it is late.
func (u *unit) cycleBeside(ctx context.Context, req *contractv1.CycleRequest) ([]*contractv1.StepResult, error) {
	u.mu.Lock()
	g := u.guest
	if _, ok := g.(guest.Concurrent); ok {
		u.mu.Unlock()
		answer, err := u.traced(ctx, g, req, u.bindingLimit())
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.noted(ctx, g, req, answer, err)
	}
	defer u.mu.Unlock()
	u.await(ctx)
	if u.guest == nil || u.catching != nil {
		return nil, u.unavailable()
	}
	u.asking = unhurried(ctx)
	defer u.asked()
	return u.crossed(ctx, u.guest, req, u.call)
}

// bindingLimit is how long a call of a process about a binding may take.
func (u *unit) bindingLimit() time.Duration {
	return cmp.Or(u.bundle.Manifest.Timeouts.Binding, u.call*bindingFactor)
}

// crossed is a call of a guest with mu held.
func (u *unit) crossed(ctx context.Context, g guest.Guest, req *contractv1.CycleRequest, timeout time.Duration) ([]*contractv1.StepResult, error) {
	answer, err := u.traced(ctx, g, req, timeout)
	return u.noted(ctx, g, req, answer, err)
}

// cycleAnswer is a response with the time that it took.
type cycleAnswer struct {
	response *contractv1.CycleResponse
	took     time.Duration
}

// traced asks a guest, with a span for each step.
func (u *unit) traced(ctx context.Context, g guest.Guest, req *contractv1.CycleRequest, timeout time.Duration) (cycleAnswer, error) {
	steps := req.GetSteps()
	name, call := steps[0].GetPlugin(), callName(steps[0].GetPoint())
	if len(steps) > 1 {
		name, call = u.bundle.Manifest.Name, "cycle"
	}
	asking, span := u.span(ctx, name, call)
	began := time.Now()
	resp, err := g.Cycle(asking, req, timeout)
	answer := cycleAnswer{resp, time.Since(began)}
	if span != nil && len(steps) > 1 && err == nil {
		at := began
		for k, r := range resp.GetResults() {
			if k < len(steps) {
				took := time.Duration(min(r.GetNanoseconds(), uint64(answer.took)))
				at = u.part(asking, span, steps[k].GetPlugin(), callName(steps[k].GetPoint()), at, took)
			}
		}
	}
	observe.EndSpan(span, err)
	return answer, err
}

// noted checks an answer, counts it, and takes a guest out of service that broke;
// mu is held.
func (u *unit) noted(ctx context.Context, g guest.Guest, req *contractv1.CycleRequest, answer cycleAnswer, err error) ([]*contractv1.StepResult, error) {
	if err == nil {
		err = checkCycle(req, answer.response)
	}
	if err != nil {
		name := req.GetSteps()[0].GetPlugin()
		if contractv1.Ended(ctx) {
			return nil, err
		}
		u.note(name, time.Now(), answer.took, answer.took, err)
		err = fmt.Errorf("plugin %s: %w", guest.PluginOf(name), err)
		switch {
		case errors.Is(err, guest.ErrBroken):
			if u.guest == g {
				u.broke(err)
			}
		case u.counted(name).failed(err, time.Now()):
			u.log.Warn("plugin did not answer a question", append(podsOf(req), "error", err)...)
		}
		return nil, err
	}
	results := answer.response.GetResults()
	for k, r := range results {
		name := req.GetSteps()[k].GetPlugin()
		took := answer.took / time.Duration(len(results))
		if own := r.GetNanoseconds(); own > 0 {
			took = time.Duration(min(own, uint64(answer.took))) // believed within what was measured
		}
		var failure error
		if r.GetCode() == contractv1.Code_ERROR {
			failure = fmt.Errorf("plugin %s: %s", guest.PluginOf(name), firstReason(r))
			if u.counted(name).failed(failure, time.Now()) {
				u.log.Warn("plugin answered with an error", append(podsOf(req), "error", failure)...)
			}
		}
		whole := answer.took
		if req.GetSteps()[k].GetPoint().Beside() {
			whole = 0 // nobody waits for it
		}
		u.note(name, time.Now(), took, whole, failure)
		if failure == nil {
			u.counted(name).ended(r.GetCode(), took)
		}
	}
	return results, nil
}

// podsOf names the pod that a request is about, for a line of the log: the first one, and
// how many there are besides. Requests about pods that wait, or about a class, name none.
func podsOf(req *contractv1.CycleRequest) []any {
	pods := req.GetPods()
	if len(pods) == 0 || pods[0].GetPod() == nil {
		return nil
	}
	words := []any{"pod", reasons.Text(pods[0].GetPod().GetNamespace() + "/" + pods[0].GetPod().GetName())}
	if len(pods) > 1 {
		words = append(words, "morePods", len(pods)-1)
	}
	return words
}

func firstReason(r *contractv1.StepResult) string {
	if len(r.GetReasons()) == 0 {
		return "no reason given"
	}
	return r.GetReasons()[0]
}

// socket is the API socket that stands for a plugin, or empty.
func (u *unit) socket(name string) string {
	u.stateMu.Lock()
	defer u.stateMu.Unlock()
	return u.sockets[name]
}

// openSockets opens the API sockets of the plugins in use that bind, or are proxies or networks,
// and may use the API.
func (h *Host) openSockets(ctx context.Context, p *plan) error {
	if h.deps.Identity == nil {
		return nil
	}
	var faults []error
	for _, u := range p.units {
		if !u.active {
			continue
		}
		for _, e := range u.bundle.Manifest.Plugins {
			asks := e.Kind == sdk.KindPreBind || e.Kind == sdk.KindBind || e.Kind == sdk.KindPostBind || e.Kind == sdk.KindProxy || e.Kind == sdk.KindNetwork
			if !asks || !p.inUse(&e) || len(e.Rules) == 0 || u.transport != manifest.TransportProcess || u.socket(e.Name) != "" {
				continue
			}
			path, err := h.identity(ctx, u, e.Name)
			if err != nil {
				faults = append(faults, fmt.Errorf("plugin %s: identity: %w", e.Name, err))
				continue
			}
			u.stateMu.Lock()
			if u.sockets == nil {
				u.sockets = map[string]string{}
			}
			u.sockets[e.Name] = path
			u.stateMu.Unlock()
		}
	}
	return errors.Join(faults...)
}
