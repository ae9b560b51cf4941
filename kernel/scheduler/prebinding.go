package scheduler

import (
	"context"
	"sync"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/framework"
)

// preBinding is a pod's time between its permit and its binding, while pre-bind
// plugins work for it. A pod with a higher priority may take its place then without
// anything being deleted: the plugins are called off, and it is tried again.
type preBinding struct {
	cancel context.CancelFunc

	mu   sync.Mutex
	past bool   // it is being bound
	by   string // the plugin that gave its place away
}

// yields gives the pod's place away, unless it is too late.
func (b *preBinding) yields(plugin string) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.past {
		return false
	}
	if b.by == "" {
		b.by = plugin
		b.cancel()
	}
	return true
}

// ends the time; from now on it is too late. It returns who gave the pod's place
// away before, if somebody did.
func (b *preBinding) ends() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past = true
	return b.by
}

// preBind asks the pre-bind plugins of a pod that can be called off meanwhile. What
// it returns keeps the pod from being bound.
func (s *Scheduler) preBind(ctx context.Context, at framework.Plugins, about *contractv1.CycleCall, of *shape, profile string, b *preBinding) *framework.Status {
	c := with(about, at.StepsFor(of.converted(), contractv1.Point_PRE_BIND))
	if ctx.Err() == nil {
		s.step(ctx, profile, at, c)
	}
	stop, by := at.Stop(c), b.ends()
	if by == "" || stop != nil && stop.Refused() {
		return stop
	}
	last := c.Steps[max(len(c.Results)-1, 0)]
	return &framework.Status{Point: last.Point, Info: at.Info(last), Code: contractv1.Code_ERROR, Reasons: []string{"preempted by " + by}}
}
