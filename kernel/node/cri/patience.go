package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/status"
)

// patience is how long a call that makes or removes something may go on when nobody waits for its answer any more.
const patience = 15 * time.Second

// indivisible reports whether a runtime that is told to give up a call may leave half of something behind, which no
// later call removes: containerd forgets the shim that it was just starting, and kills the CNI plugin that was just
// removing a network. A pull, and a container's grace, end at once.
func indivisible(method string) bool {
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "RemoveContainer":
		return true
	}
	return false
}

// outlasting is a context that ends a while after ctx does; one that has ended already begins nothing.
func outlasting(ctx context.Context, while time.Duration) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, status.FromContextError(err).Err()
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(while, cancel)
		context.AfterFunc(inner, func() { late.Stop() })
	})
	return inner, func() { stop(); cancel() }, nil
}
