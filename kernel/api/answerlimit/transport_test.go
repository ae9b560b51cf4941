package answerlimit

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const bound = 1 << 20

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req), nil }

// endless gives bytes without end, and counts them.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func (*endless) Close() error { return nil }

// An answer is read up to the bound, whatever its header says of its length.
func TestAnswersAreBounded(t *testing.T) {
	for name, test := range map[string]struct {
		length int64
		body   io.Reader
		ok     bool
	}{
		"short":             {-1, strings.NewReader("{}"), true},
		"at the bound":      {bound, io.LimitReader(&endless{}, bound), true},
		"past the bound":    {-1, io.LimitReader(&endless{}, bound+1), false},
		"said to be longer": {bound + 1, strings.NewReader(""), false},
		"without end":       {-1, &endless{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := Wrap("the webhook", bound)(answering(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusOK, ContentLength: test.length, Body: io.NopCloser(test.body)}
			}))
			res, err := b.RoundTrip(nil)
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
			}
			if test.ok && err != nil || !test.ok && !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
			if e, ok := test.body.(*endless); ok && e.read > 2*bound {
				t.Errorf("%d bytes were read", e.read)
			}
		})
	}
}

// Nobody is followed elsewhere, but where that is allowed.
func TestRedirects(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		next := answering(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: code, Header: http.Header{"Location": {"http://169.254.169.254/"}}, Body: http.NoBody}
		})
		if res, err := (Transport{Next: next, Max: bound, Redirects: true}).RoundTrip(nil); err != nil || res.StatusCode != code {
			t.Errorf("%d, allowed: %v", code, err)
		}
		if _, err := Wrap("the webhook", bound)(next).RoundTrip(nil); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %v", code, err)
		}
	}
}
