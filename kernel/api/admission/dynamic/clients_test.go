package dynamic

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

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
		"at the bound":      {maxAnswer, io.LimitReader(&endless{}, maxAnswer), true},
		"past the bound":    {-1, io.LimitReader(&endless{}, maxAnswer+1), false},
		"said to be longer": {maxAnswer + 1, strings.NewReader(""), false},
		"without end":       {-1, &endless{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := bounded{answering(func(*http.Request) *http.Response {
				return &http.Response{StatusCode: http.StatusOK, ContentLength: test.length, Body: io.NopCloser(test.body)}
			})}
			res, err := b.RoundTrip(nil)
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
			}
			if test.ok && err != nil || !test.ok && !errors.Is(err, errTooLarge) {
				t.Errorf("got %v", err)
			}
			if e, ok := test.body.(*endless); ok && e.read > 2*maxAnswer {
				t.Errorf("%d bytes were read", e.read)
			}
		})
	}
}

// Nobody is followed elsewhere, and the server does not ask itself.
func TestElsewhere(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		b := bounded{answering(func(*http.Request) *http.Response {
			return &http.Response{StatusCode: code, Header: http.Header{"Location": {"http://169.254.169.254/"}}, Body: http.NoBody}
		})}
		if _, err := b.RoundTrip(nil); err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
			t.Errorf("%d: %v", code, err)
		}
	}
	plain := func(string) (*rest.Config, error) { return &rest.Config{}, nil }
	clients := boundedClients(nil)(&webhookutil.AuthenticationInfoResolverDelegator{ClientConfigForFunc: plain,
		ClientConfigForServiceFunc: func(string, string, int) (*rest.Config, error) { return &rest.Config{}, nil }})
	for _, port := range []int{443, 6443} {
		if _, err := clients.ClientConfigForService("kubernetes", "default", port); !errors.Is(err, errItself) {
			t.Errorf("port %d: %v", port, err)
		}
	}
	if _, err := clients.ClientConfigFor("kubernetes.default.svc:443"); !errors.Is(err, errItself) {
		t.Errorf("by its name: %v", err)
	}
	if cfg, err := clients.ClientConfigForService("kubernetes", "other", 443); err != nil || cfg.WrapTransport == nil {
		t.Errorf("of another namespace: %v", err)
	}
}
