package conntrack

import (
	"sync"
	"time"
)

const (
	// rest is how many times as long as a run took none follows.
	rest = 9
	// mostRest bounds that. It is what kube-proxy waits between two syncs.
	mostRest = time.Second
)

// Pace runs what lists the kernel's flows. For each list the kernel looks through its whole table,
// also where that is empty: endpoints that change a hundred times a second would take a processor.
// So what is asked for shortly after a run waits, and runs once. The zero Pace is ready.
type Pace struct {
	mu      sync.Mutex
	runs    sync.WaitGroup
	running bool
	again   func()    // what was asked for during a run
	after   time.Time // when the next one may run
	timer   *time.Timer
	ended   bool
}

// Start lets it run again after Stop.
func (p *Pace) Start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = false
}

// Run calls a function, and returns when it has. During another call, or shortly after it, it
// returns at once, and the function is called later, once for all who asked for it.
func (p *Pace) Run(do func()) {
	p.mu.Lock()
	if p.ended || p.timer != nil {
		p.mu.Unlock()
		return
	}
	if p.running {
		p.again = do
		p.mu.Unlock()
		return
	}
	if wait := time.Until(p.after); wait > 0 {
		p.wait(do, wait)
		p.mu.Unlock()
		return
	}
	p.running = true
	p.runs.Add(1)
	p.mu.Unlock()
	defer p.runs.Done()

	begun := time.Now()
	do()

	p.mu.Lock()
	defer p.mu.Unlock()
	pause := min(rest*time.Since(begun), mostRest)
	p.running, p.after = false, time.Now().Add(pause)
	if p.again != nil && !p.ended {
		p.wait(p.again, pause)
	}
	p.again = nil
}

// wait has a function called later. The caller holds mu.
func (p *Pace) wait(do func(), pause time.Duration) {
	p.timer = time.AfterFunc(pause, func() { // Stop waits for what it runs
		p.mu.Lock()
		p.timer = nil
		p.mu.Unlock()
		p.Run(do)
	})
}

// Stop drops the call that waits, and waits for the one that runs.
func (p *Pace) Stop() {
	p.mu.Lock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	p.mu.Unlock()
	p.runs.Wait()
}
