package handover

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOneOwner: many leave and return; the race detector and the sum say that there
// was one owner at a time.
func TestOneOwner(t *testing.T) {
	const leavers = 40
	o, sum := New(), 0
	var over sync.WaitGroup
	var loop Loop
	loop = func() bool {
		for sum < leavers {
			select {
			case <-o.Wanted():
				return true
			default:
			}
			sum++
			if sum%2 == 0 {
				continue
			}
			answered := make(chan struct{})
			over.Go(func() { close(answered) })
			o.Leave(loop)
			<-answered
			o.Return()
		}
		return false
	}
	o.Run(loop)
	over.Wait()
	if sum != leavers || o.Away() != 0 {
		t.Errorf("sum %d, want %d; away %d", sum, leavers, o.Away())
	}
}

// TestEndWhileAway: a state that is over waits for those who are away, and they for
// nobody.
func TestEndWhileAway(t *testing.T) {
	o, order := New(), ""
	released := make(chan struct{})
	o.Run(func() bool {
		order += "a"
		o.Leave(func() bool {
			order += "b"
			o.Leave(func() bool {
				order += "c"
				close(released)
				return false
			})
			<-released
			o.Return()
			order += "d"
			return false
		})
		<-released
		o.Return()
		order += "e"
		return false
	})
	if order != "abcde" && order != "abced" || o.Away() != 0 {
		t.Errorf("order %s, away %d", order, o.Away())
	}
}
