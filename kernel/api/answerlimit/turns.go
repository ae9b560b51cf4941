package answerlimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// atOnce are the questions that one server is asked at a time, waiting those that
	// wait for their turn: requests are held meanwhile, which nothing else bounds
	// before they are authorized.
	atOnce, waiting = 200, 1000
)

// ErrTooMany is in the error about a question that is not asked.
var ErrTooMany = errors.New("too many questions wait for it")

// Turns bound how many questions a server is asked at a time. A question has its turn
// until its answer is read.
type Turns struct {
	free chan struct{}
	wait atomic.Int64
	most int64
}

// NewTurns makes those of one server.
func NewTurns() *Turns { return newTurns(atOnce, waiting) }

func newTurns(atOnce, waiting int) *Turns {
	return &Turns{free: make(chan struct{}, atOnce), most: int64(waiting)}
}

// Wrap makes what rest.Config.Wrap wants: answers have a bound as by the function Wrap.
func (t *Turns) Wrap(who string, most int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return inTurn{Transport{Next: next, Who: who, Max: most}, t}
	}
}

// take waits for a turn, as long as the request may.
func (t *Turns) take(req *http.Request, who string) error {
	select {
	case t.free <- struct{}{}:
		return nil
	default:
	}
	defer t.wait.Add(-1)
	if t.wait.Add(1) > t.most {
		return fmt.Errorf("%s: %w", who, ErrTooMany)
	}
	select {
	case t.free <- struct{}{}:
		return nil
	case <-req.Context().Done():
		return fmt.Errorf("%s has been asked %d questions that it has not answered: %w", who, cap(t.free), req.Context().Err())
	}
}

type inTurn struct {
	Transport
	turns *Turns
}

// RoundTrip implements http.RoundTripper.
func (i inTurn) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := i.turns.take(req, i.Who); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	end := sync.OnceFunc(func() { <-i.turns.free })
	res, err := i.Transport.RoundTrip(req)
	if err != nil {
		end()
		return nil, err
	}
	res.Body = ending{res.Body, end}
	return res, nil
}

// ending is a body whose end is the end of a turn.
type ending struct {
	io.ReadCloser
	end func()
}

func (e ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
