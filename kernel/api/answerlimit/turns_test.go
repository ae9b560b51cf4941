package answerlimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// A server that does not answer is asked a bounded number of questions, some wait, and
// the others are refused at once; what ends gives its turn to the next.
func TestTurns(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	turns := newTurns(2, 1)
	transport := turns.Wrap("the webhook", bound)(hanging(func() *http.Response {
		asked <- struct{}{}
		<-answer
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}
	}))
	ask := func(ctx context.Context) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://webhook", strings.NewReader("question"))
		if err != nil {
			t.Error(err)
		}
		return transport.RoundTrip(req)
	}
	type result struct {
		res *http.Response
		err error
	}
	results := make(chan result, 3)
	start := func(ctx context.Context) {
		go func() {
			res, err := ask(ctx)
			results <- result{res, err}
		}()
	}
	start(t.Context())
	start(t.Context())
	<-asked
	<-asked // both are with the server
	waits, give := context.WithCancel(t.Context())
	start(waits)
	for turns.wait.Load() != 1 { // it waits
		runtime.Gosched()
	}
	if _, err := ask(t.Context()); !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "the webhook") {
		t.Errorf("one too many: %v", err)
	}
	give()
	if r := <-results; !errors.Is(r.err, context.Canceled) {
		t.Errorf("it waited as long as it may: %v", r.err)
	}
	answer <- struct{}{}
	first := <-results
	if first.err != nil {
		t.Fatal(first.err)
	}
	// Its turn is over when the answer is read, and not before.
	if len(turns.free) != 2 {
		t.Errorf("%d turns are taken", len(turns.free))
	}
	_ = first.res.Body.Close()
	_ = first.res.Body.Close()
	if len(turns.free) != 1 {
		t.Errorf("%d turns are taken after an answer", len(turns.free))
	}
	start(t.Context())
	<-asked
	answer <- struct{}{}
	answer <- struct{}{}
	for range 2 {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		_ = r.res.Body.Close()
	}
	if len(turns.free) != 0 || turns.wait.Load() != 0 {
		t.Errorf("%d turns are taken, %d wait in the end", len(turns.free), turns.wait.Load())
	}
}

// A question that fails ends its turn.
func TestTurnOfFailure(t *testing.T) {
	turns := newTurns(1, 0)
	transport := turns.Wrap("the webhook", bound)(hanging(func() *http.Response { return nil }))
	for range 3 {
		if _, err := transport.RoundTrip(&http.Request{}); err == nil || errors.Is(err, ErrTooMany) {
			t.Error(err)
		}
	}
}

type hanging func() *http.Response

func (h hanging) RoundTrip(*http.Request) (*http.Response, error) {
	if res := h(); res != nil {
		return res, nil
	}
	return nil, errors.New("refused")
}
