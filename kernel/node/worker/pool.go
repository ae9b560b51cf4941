package worker

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Work is one round for a pod; it answers when the next is due at the latest (0: only when woken).
type Work func(ctx context.Context, uid types.UID) (next time.Duration)

type state struct {
	running, again bool
	// doubt, if not nil, says at the end of the round whether another one is needed.
	doubt  func() bool
	cancel context.CancelFunc
	timer  *time.Timer
}

// Pool runs rounds.
type Pool struct {
	work Work

	ctx  context.Context //nolint:containedctx // the lifetime of all rounds, ended by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	pods   map[types.UID]*state
}

// New makes an idle pool.
func New(work Work) *Pool {
	ctx, stop := context.WithCancel(context.Background())
	return &Pool{work: work, ctx: ctx, stop: stop, pods: map[types.UID]*state{}}
}

// Close interrupts what runs and waits for it. No round begins afterwards.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.pods {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	p.mu.Unlock()
	p.stop()
	p.wg.Wait()
}

// Wake begins a round now, or right after the one under way.
func (p *Pool) Wake(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(uid, false)
}

// WakeIf is Wake where needed says so: now, or at the end of the round under way. needed must not call the pool.
func (p *Pool) WakeIf(uid types.UID, needed func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.pods[uid]; s != nil && s.running {
		s.doubt = needed
	} else if needed() {
		p.wake(uid, false)
	}
}

// Interrupt is Wake, and cancels the context of the round under way.
func (p *Pool) Interrupt(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake(uid, true)
}

func (p *Pool) wake(uid types.UID, interrupt bool) {
	if p.closed {
		return
	}
	s := p.pods[uid]
	if s == nil {
		s = &state{}
		p.pods[uid] = s
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.running {
		s.again = true
		if interrupt {
			s.cancel()
		}
		return
	}
	s.running = true
	ctx, cancel := context.WithCancel(p.ctx)
	s.cancel = cancel
	p.wg.Go(func() { p.run(ctx, cancel, uid, s) })
}

func (p *Pool) run(ctx context.Context, cancel context.CancelFunc, uid types.UID, s *state) {
	for {
		next := p.work(ctx, uid)
		cancel()
		p.mu.Lock()
		again := s.again || s.doubt != nil && s.doubt()
		s.again, s.doubt = false, nil
		if p.closed || !again {
			s.running = false
			switch {
			case p.closed:
			case next > 0:
				s.timer = time.AfterFunc(next, func() { p.Wake(uid) })
			default:
				delete(p.pods, uid)
			}
			p.mu.Unlock()
			return
		}
		ctx, cancel = context.WithCancel(p.ctx)
		s.cancel = cancel
		p.mu.Unlock()
	}
}
