package main

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/sdk/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func serve(t *testing.T) (runtimev1.RuntimeServiceClient, runtimev1.ImageServiceClient) {
	t.Helper()
	dir, err := os.MkdirTemp("", "h") // sockets allow short paths only
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := &lifeCycle{}
	e, err := l.Start(t.Context(), runtime.Options{StateDirectory: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(e.Version, "hollow") {
		t.Errorf("version %q does not say that nothing runs", e.Version)
	}
	conn, err := grpc.NewClient("unix://"+e.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := l.Stop(context.WithoutCancel(t.Context()), false); err != nil {
			t.Error(err)
		}
	})
	return runtimev1.NewRuntimeServiceClient(conn), runtimev1.NewImageServiceClient(conn)
}

func on(ctx context.Context, node string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, nodeKey, node)
}

func TestPodOnTwoNodes(t *testing.T) {
	cri, images := serve(t)
	ctx := on(t.Context(), "a")
	events, err := cri.GetContainerEvents(ctx, &runtimev1.GetEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := images.PullImage(ctx, &runtimev1.PullImageRequest{Image: &runtimev1.ImageSpec{Image: "x:1"}}); err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{runForAnnotation: "50ms", exitCodeAnnotation: "3"}
	sb, err := cri.RunPodSandbox(ctx, &runtimev1.RunPodSandboxRequest{Config: &runtimev1.PodSandboxConfig{
		Metadata: &runtimev1.PodSandboxMetadata{Name: "p"}, Labels: map[string]string{"l": "1"}, Annotations: annotations,
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cri.CreateContainer(ctx, &runtimev1.CreateContainerRequest{PodSandboxId: sb.PodSandboxId, Config: &runtimev1.ContainerConfig{
		Metadata: &runtimev1.ContainerMetadata{Name: "c"}, Image: &runtimev1.ImageSpec{Image: "x:1"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cri.StartContainer(ctx, &runtimev1.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		t.Fatal(err)
	}
	other, err := cri.ListPodSandbox(on(t.Context(), "b"), &runtimev1.ListPodSandboxRequest{})
	if err != nil || len(other.Items) != 0 {
		t.Errorf("node b sees %v, %v", other, err)
	}
	var last *runtimev1.ContainerStatus
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		s, err := cri.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: c.ContainerId})
		if err != nil {
			t.Fatal(err)
		}
		if last = s.Status; last.State == runtimev1.ContainerState_CONTAINER_EXITED {
			break
		}
	}
	if last.State != runtimev1.ContainerState_CONTAINER_EXITED || last.ExitCode != 3 || last.Reason != "Error" {
		t.Errorf("after run-for: %v", last)
	}
	if _, err := cri.Exec(ctx, &runtimev1.ExecRequest{ContainerId: c.ContainerId}); status.Code(err) != codes.Unimplemented {
		t.Errorf("exec: %v", err)
	}
	if _, err := cri.RemovePodSandbox(ctx, &runtimev1.RemovePodSandboxRequest{PodSandboxId: sb.PodSandboxId}); err != nil {
		t.Fatal(err)
	}
	if _, err := cri.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: c.ContainerId}); status.Code(err) != codes.NotFound {
		t.Errorf("container of a removed sandbox: %v", err)
	}
	for {
		e, err := events.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if e.ContainerId == sb.PodSandboxId && e.ContainerEventType == runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT {
			break
		}
	}
}
