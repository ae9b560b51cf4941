package worker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOneRoundAtATime: KLT-31, one worker a pod; KLT-37, a change during a round gives one more round.
func TestOneRoundAtATime(t *testing.T) {
	var mu sync.Mutex
	active, most, rounds := 0, 0, 0
	hold := make(chan struct{})
	done := make(chan struct{}, 10)
	p := New(func(context.Context, types.UID) time.Duration {
		mu.Lock()
		active++
		rounds++
		most = max(most, active)
		mu.Unlock()
		<-hold
		mu.Lock()
		active--
		mu.Unlock()
		done <- struct{}{}
		return 0
	})
	for range 5 {
		p.Wake("a")
	}
	hold <- struct{}{}
	hold <- struct{}{}
	<-done
	<-done
	p.Close()
	if most != 1 || rounds != 2 {
		t.Fatalf("at most %d rounds at once, %d in all; want 1 and 2", most, rounds)
	}
}

func TestInterruptCancelsTheRound(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan struct{})
	var n atomic.Int32
	p := New(func(ctx context.Context, _ types.UID) time.Duration {
		if n.Add(1) == 1 {
			started <- struct{}{}
			<-ctx.Done()
			return 0
		}
		if ctx.Err() != nil {
			t.Error("the round after an interrupt begins cancelled")
		}
		close(ended)
		return 0
	})
	p.Wake("a")
	<-started
	p.Interrupt("a")
	<-ended
	p.Close()
}

func TestNextRoundComesByItself(t *testing.T) {
	second := make(chan struct{})
	var n atomic.Int32
	p := New(func(context.Context, types.UID) time.Duration {
		if n.Add(1) == 2 {
			close(second)
			return 0
		}
		return time.Millisecond
	})
	p.Wake("a")
	<-second
	p.Close()
	p.Wake("a") // after Close: nothing happens, and nothing leaks
}

// TestWakeIf: a doubt is settled at the end of the round under way, and begins one only where it is right.
func TestWakeIf(t *testing.T) {
	for name, tc := range map[string]struct {
		needed bool
		rounds int
	}{"needed": {true, 2}, "not needed": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			begun, hold := make(chan struct{}, 10), make(chan struct{})
			var rounds, asked atomic.Int32
			p := New(func(context.Context, types.UID) time.Duration {
				rounds.Add(1)
				begun <- struct{}{}
				<-hold
				return 0
			})
			p.WakeIf("a", func() bool { return false })
			if rounds.Load() != 0 {
				t.Error("a round began without need")
			}
			p.WakeIf("a", func() bool { return true })
			<-begun
			p.WakeIf("a", func() bool { asked.Add(1); return true }) // overtaken by the next
			p.WakeIf("a", func() bool { asked.Add(1); return tc.needed && rounds.Load() == 1 })
			if asked.Load() != 0 {
				t.Error("the doubt was settled before the end of the round")
			}
			close(hold)
			if tc.needed {
				<-begun
			}
			for p.busy("a") {
				time.Sleep(time.Millisecond)
			}
			p.Close()
			if int(rounds.Load()) != tc.rounds {
				t.Errorf("%d rounds, want %d", rounds.Load(), tc.rounds)
			}
		})
	}
}

// busy reports whether a round is under way.
func (p *Pool) busy(uid types.UID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid] != nil && p.pods[uid].running
}
