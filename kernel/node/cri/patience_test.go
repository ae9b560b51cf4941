package cri

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// slowConn answers a call when it is released, or with the end of its context.
type slowConn struct {
	grpc.ClientConnInterface
	called  chan context.Context
	release chan struct{}
}

func (s slowConn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	s.called <- ctx
	select {
	case <-s.release:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// What makes or removes something is not cut short when nobody waits any more; a pull
// and the wait for a container's end are.
func TestCallsThatOutlast(t *testing.T) {
	for name, c := range map[string]struct {
		call     func(context.Context, *Client) error
		outlasts bool
	}{
		"RunPodSandbox": {func(ctx context.Context, c *Client) error {
			_, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{})
			return err
		}, true},
		"StopPodSandbox": {func(ctx context.Context, c *Client) error {
			_, err := c.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{})
			return err
		}, true},
		"PullImage": {func(ctx context.Context, c *Client) error {
			_, err := c.PullImage(ctx, &runtimeapi.PullImageRequest{})
			return err
		}, false},
		"StopContainer": {func(ctx context.Context, c *Client) error { return c.Stop(ctx, "x", time.Minute) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			conn := slowConn{called: make(chan context.Context, 1), release: make(chan struct{})}
			client := New(conn, "n")
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() { answer <- c.call(ctx, client) }()
			given := <-conn.called
			cancel()
			if c.outlasts {
				if err := given.Err(); err != nil {
					t.Errorf("the call was cut short: %v", err)
				}
				if _, limited := given.Deadline(); !limited {
					t.Error("the call may go on for ever")
				}
				close(conn.release)
			}
			if err := <-answer; (err == nil) != c.outlasts {
				t.Errorf("answer %v", err)
			}
			if err := c.call(ctx, client); status.Code(err) != codes.Canceled {
				t.Errorf("a call that nobody waits for from the start: %v", err)
			}
			if c.outlasts && len(conn.called) > 0 {
				t.Error("it was begun")
			}
		})
	}
}

// Patience ends.
func TestOutlasting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	inner, stop, err := outlasting(ctx, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	cancel()
	select {
	case <-inner.Done():
	case <-time.After(2 * time.Minute):
		t.Error("it never ends")
	}
}
