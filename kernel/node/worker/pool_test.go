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
