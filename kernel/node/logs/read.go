package logs

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crilogs "k8s.io/cri-client/pkg/logs"

	"pintle.dev/pintle/kernel/node/cri"
)

// statusOnly lets cri-client ask whether the container still runs; it asks nothing else.
type statusOnly struct {
	criapi.RuntimeService
	client *cri.Client
}

func (s statusOnly) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	return s.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
}

// Read writes a container's log to stdout and stderr by the options, and follows it while the container runs when
// they say so. A nil writer leaves its stream out.
func Read(ctx context.Context, client *cri.Client, path, containerID string, o *corev1.PodLogOptions, stdout, stderr io.Writer) error {
	opts := &crilogs.LogOptions{TailLines: o.TailLines, LimitBytes: o.LimitBytes, Follow: o.Follow, Timestamp: o.Timestamps}
	switch {
	case o.SinceSeconds != nil:
		opts.Since = time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	case o.SinceTime != nil:
		opts.Since = o.SinceTime.Time
	}
	return crilogs.ReadLogs(ctx, path, containerID, opts, statusOnly{client: client}, stdout, stderr)
}
