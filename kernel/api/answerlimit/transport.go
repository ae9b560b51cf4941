package answerlimit

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrTooLarge is in the error about an answer that is larger than its bound.
var ErrTooLarge = errors.New("the answer is too large")

// Transport refuses redirects, and answers of more than Max bytes. Who names the
// server in errors, such as "the webhook".
type Transport struct {
	Next http.RoundTripper
	Who  string
	Max  int64
	// Redirects lets redirects through, for requests that hold nothing secret.
	Redirects bool
}

// Wrap makes what rest.Config.Wrap wants.
func Wrap(who string, most int64) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return Transport{Next: next, Who: who, Max: most} }
}

// WrappedRoundTripper lets the transport below be found.
func (t Transport) WrappedRoundTripper() http.RoundTripper { return t.Next }

// RoundTrip implements http.RoundTripper.
func (t Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.Next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if !t.Redirects && res.StatusCode >= 300 && res.StatusCode < 400 {
		res.Body.Close()
		return nil, fmt.Errorf("%s answered with a redirect (%d) to %q; redirects are not followed", t.Who, res.StatusCode, res.Header.Get("Location"))
	}
	if res.ContentLength > t.Max {
		res.Body.Close()
		return nil, t.tooLarge()
	}
	res.Body = &body{res.Body, t.Max, t}
	return res, nil
}

func (t Transport) tooLarge() error {
	return fmt.Errorf("%s answered with more than %d bytes: %w", t.Who, t.Max, ErrTooLarge)
}

type body struct {
	io.ReadCloser
	left int64
	of   Transport
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.ReadCloser.Read(make([]byte, 1)); n == 0 {
			return 0, err
		}
		return 0, b.of.tooLarge()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
