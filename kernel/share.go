package kernel

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
)

// hollowShare is how many requests all hollow nodes together have in flight,
// to the API and to their runtime each. Nodes of a real cluster work on
// machines of their own; simulated ones must not take this one from the
// control plane, nor the API's places for writes from others.
const hollowShare = 2

// share is a number of places; whoever works holds one.
type share chan struct{}

func (s share) enter(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s share) leave() { <-s }

// intercept is a grpc.UnaryClientInterceptor.
func (s share) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return invoke(ctx, method, req, reply, cc, opts...)
}

// wrap limits a transport. A place is held until the answer begins: watches
// hold none while they wait for events.
func (s share) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if err := s.enter(req.Context()); err != nil {
			return nil, err
		}
		defer s.leave()
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
