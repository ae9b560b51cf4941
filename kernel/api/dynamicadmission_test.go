package api

import (
	"context"
	"errors"
	"net/http"
	"testing"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Who asks discovery without a context holds no stop up: a client waits as long as it is
// told to, and a server that ends tells it to wait.
func TestDiscoveryEndsWithServer(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	asked := 0
	w := whileServing{roundTrip(func(*http.Request) (*http.Response, error) {
		asked++
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}, Body: http.NoBody}, nil
	}), stopping}
	if res, err := w.RoundTrip(nil); err != nil || res.Header.Get("Retry-After") != "" {
		t.Errorf("told to wait: %+v, %v", res, err)
	}
	stop()
	if _, err := w.RoundTrip(nil); !errors.Is(err, errStopping) || asked != 1 {
		t.Errorf("after the stop: %v, asked %d times", err, asked)
	}
}
