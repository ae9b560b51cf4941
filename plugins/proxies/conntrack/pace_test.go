package conntrack

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: the first call is at once; those of a hundred times a second take a tenth of the time,
// and the last one is not lost. None comes after a stop.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 20 * time.Millisecond
		var p Pace
		var begun []time.Time
		do := func() {
			begun = append(begun, time.Now())
			time.Sleep(took)
		}
		start := time.Now()
		p.Run(do)
		if len(begun) != 1 || !begun[0].Equal(start) {
			t.Fatalf("after the first call it ran at %v, and not at %v", begun, start)
		}
		var last time.Time
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			last = time.Now()
			p.Run(do)
		}
		time.Sleep(2 * mostRest)
		synctest.Wait()
		if least, most := 40, 60; len(begun) < least || len(begun) > most {
			t.Errorf("1000 calls in 10 s ran %d times, want %d to %d", len(begun), least, most)
		}
		for i := range begun[1:] {
			if pause := begun[i+1].Sub(begun[i]); pause < (rest+1)*took || pause > (rest+1)*took+mostRest {
				t.Errorf("run %d came %s after the one before", i+1, pause)
			}
		}
		if end := begun[len(begun)-1]; end.Before(last) {
			t.Errorf("the last call was at %v, and the last run at %v", last, end)
		}
		// One that takes long is followed by a pause of a second.
		long := func() { begun = append(begun, time.Now()); time.Sleep(time.Minute) }
		p.Run(long)
		count, end := len(begun), time.Now()
		p.Run(do)
		time.Sleep(2 * mostRest)
		synctest.Wait()
		if len(begun) != count+1 || begun[count].Sub(end) != mostRest {
			t.Errorf("after a long run the next one came after %s", begun[len(begun)-1].Sub(end))
		}
		p.Run(do)
		p.Stop()
		count = len(begun)
		p.Run(do)
		time.Sleep(2 * mostRest)
		synctest.Wait()
		if len(begun) != count {
			t.Error("it ran after the stop")
		}
		p.Start()
		if p.Run(do); len(begun) != count+1 {
			t.Error("it did not run after the next start")
		}
	})
}
