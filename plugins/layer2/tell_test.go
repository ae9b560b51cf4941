package layer2

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// written are events that were written, and the log.
type written struct {
	*events
	messages []string
	fails    bool
	waits    chan struct{} // if not nil a request ends after it is closed
	log      bytes.Buffer
}

// writing calls f with events that are written to no API.
func writing(t *testing.T, f func(w *written)) {
	synctest.Test(t, func(t *testing.T) {
		w := &written{}
		w.events = newEvents(nil, "a", slog.New(slog.NewTextHandler(&w.log, nil)))
		w.create = func(_ context.Context, e *corev1.Event) error {
			if w.waits != nil {
				<-w.waits
			}
			if w.fails {
				return errors.New("no way to the API")
			}
			w.messages = append(w.messages, e.Reason+": "+e.Message)
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.run(ctx)
			close(done)
		}()
		f(w)
		cancel()
		<-done
	})
}

// later lets time pass, and returns how many events were written since.
func (w *written) later(d time.Duration) int {
	time.Sleep(d)
	synctest.Wait()
	n := len(w.messages)
	w.messages = nil
	return n
}

// TestManyMachines: a machine of the link that calls itself 1,000 machines makes one event and
// one line of the log a minute.
func TestManyMachines(t *testing.T) {
	writing(t, func(w *written) {
		s := serviceOf("web", ip1.String())
		flood := func(pause time.Duration) {
			for i := range 1000 {
				w.inUse(ip1, s, net.HardwareAddr{6, 0, 0, 0, byte(i >> 8), byte(i)})
				time.Sleep(pause)
			}
		}
		flood(0)
		if n, lines := w.later(0), strings.Count(w.log.String(), "\n"); n != 1 || lines != 1 {
			t.Errorf("at once: %d events, %d lines", n, lines)
		}
		time.Sleep(sayLeast)
		w.log.Reset()
		flood(600 * time.Millisecond)
		if n, lines := w.later(0), strings.Count(w.log.String(), "\n"); n != 10 || lines != 10 {
			t.Errorf("in ten minutes: %d events, %d lines", n, lines)
		}
		if len(w.said) != 1 {
			t.Errorf("%d things are kept", len(w.said))
		}
	})
}

// TestSaidAgain: what goes on is said once. What was over is said again.
func TestSaidAgain(t *testing.T) {
	writing(t, func(w *written) {
		s := serviceOf("web", ip1.String())
		for range 60 {
			w.announced(ip1, s)
			time.Sleep(announceAgain)
		}
		if n := w.later(0); n != 1 {
			t.Errorf("in an hour: %d events", n)
		}
		w.forget(ip1)
		w.announced(ip1, s)
		if n := w.later(0); n != 1 {
			t.Errorf("when the node announces it again: %d events", n)
		}
		for range 100 { // a node that comes and goes
			w.forget(ip1)
			w.announced(ip1, s)
			w.taken(ip1, s, "b")
		}
		if n := w.later(0); n != 1 {
			t.Errorf("with many changes at once: %d events", n)
		}
		w.forget(ip1)
		time.Sleep(sayLeast)
		w.announced(fellow1, s)
		if w.later(0); len(w.said) != 1 {
			t.Errorf("%d things are kept", len(w.said))
		}
	})
}

// TestWrittenLater: an event that was not written is written when that works again; the log
// has the fault once, and its end.
func TestWrittenLater(t *testing.T) {
	writing(t, func(w *written) {
		s := serviceOf("web", ip1.String())
		w.fails = true
		for range 10 {
			w.announced(ip1, s)
			w.later(announceAgain)
		}
		w.fails = false
		w.announced(ip1, s)
		w.later(0)
		w.announced(ip1, s)
		time.Sleep(announceAgain)
		w.announced(ip1, s)
		if n := w.later(0); n != 0 {
			t.Errorf("after it was written: %d events", n)
		}
		for words, want := range map[string]int{"was not written": 1, "are written again": 1, "Node a announces": 2} {
			if n := strings.Count(w.log.String(), words); n != want {
				t.Errorf("the log says %d times %q, want %d:\n%s", n, words, want, w.log.String())
			}
		}
	})
	writing(t, func(w *written) { // more than wait at once
		w.waits = make(chan struct{})
		for i := range mostEvents + 10 {
			s := serviceOf("web", ip1.String())
			ip := ip1
			for range i {
				ip = ip.Next()
			}
			w.announced(ip, s)
		}
		close(w.waits)
		if n := w.later(sayLeast); n < mostEvents || n > mostEvents+1 {
			t.Errorf("%d events were written of those that wait", n)
		}
		ip := ip1
		for range mostEvents + 9 {
			ip = ip.Next()
		}
		w.announced(ip, serviceOf("web", ip1.String()))
		if n := w.later(0); n != 1 {
			t.Errorf("the last was written %d times", n)
		}
	})
}
