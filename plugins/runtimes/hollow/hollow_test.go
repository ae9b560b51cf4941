package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
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
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
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

// TestAddresses: sandboxes of two nodes never share an address, a node's range
// ends, and what was given back is handed out again.
func TestAddresses(t *testing.T) {
	cri, _ := serve(t)
	run := func(node, cidr string) (id, ip string, err error) {
		ctx := metadata.AppendToOutgoingContext(on(t.Context(), node), podCIDRKey, cidr)
		sb, err := cri.RunPodSandbox(ctx, &runtimev1.RunPodSandboxRequest{Config: &runtimev1.PodSandboxConfig{}})
		if err != nil {
			return "", "", err
		}
		s, err := cri.PodSandboxStatus(ctx, &runtimev1.PodSandboxStatusRequest{PodSandboxId: sb.PodSandboxId})
		if err != nil {
			return "", "", err
		}
		return sb.PodSandboxId, s.Status.Network.Ip, nil
	}
	var ids, a, b []string
	for range 6 {
		for _, n := range []struct {
			name, cidr string
			ips        *[]string
		}{{"a", "10.128.0.0/29", &a}, {"b", "10.128.0.8/29", &b}} {
			id, ip, err := run(n.name, n.cidr)
			if err != nil {
				t.Fatal(err)
			}
			*n.ips = append(*n.ips, ip)
			if n.name == "a" {
				ids = append(ids, id)
			}
		}
	}
	if want := []string{"10.128.0.1", "10.128.0.2", "10.128.0.3", "10.128.0.4", "10.128.0.5", "10.128.0.6"}; !slices.Equal(a, want) {
		t.Errorf("node a has %v", a)
	}
	if want := []string{"10.128.0.9", "10.128.0.10", "10.128.0.11", "10.128.0.12", "10.128.0.13", "10.128.0.14"}; !slices.Equal(b, want) {
		t.Errorf("node b has %v", b)
	}
	if _, _, err := run("a", "10.128.0.0/29"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a seventh address of six: %v", err)
	}
	if _, err := cri.RemovePodSandbox(on(t.Context(), "a"), &runtimev1.RemovePodSandboxRequest{PodSandboxId: ids[2]}); err != nil {
		t.Fatal(err)
	}
	if _, ip, err := run("a", "10.128.0.0/29"); err != nil || ip != a[2] {
		t.Errorf("the address given back is %s, got %s, %v", a[2], ip, err)
	}
	// A sandbox that was stopped has no address any more, though it stays: that of a pod that
	// ended, whose object is kept.
	if _, err := cri.StopPodSandbox(on(t.Context(), "a"), &runtimev1.StopPodSandboxRequest{PodSandboxId: ids[4]}); err != nil {
		t.Fatal(err)
	}
	if _, ip, err := run("a", "10.128.0.0/29"); err != nil || ip != a[4] {
		t.Errorf("the address of the stopped sandbox is %s, got %s, %v", a[4], ip, err)
	}
	if _, _, err := run("a", "10.128.0.0/29"); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an address more than there are: %v", err)
	}
	if _, _, err := run("c", "nonsense"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("no range: %v", err)
	}
}

// TestEventsOfAllNodes: the node "*" hears of the pods of every node, each with
// its node's name, and its stream ends rather than lose an event.
func TestEventsOfAllNodes(t *testing.T) {
	w := newWorld()
	server := &runtimeServer{world: w}
	in := func(node string) context.Context {
		return metadata.NewIncomingContext(t.Context(), metadata.Pairs(nodeKey, node))
	}
	run := func(node, uid string) {
		t.Helper()
		_, err := server.RunPodSandbox(in(node), &runtimev1.RunPodSandboxRequest{Config: &runtimev1.PodSandboxConfig{
			Metadata: &runtimev1.PodSandboxMetadata{Uid: uid}, Annotations: map[string]string{"own": uid},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	all, leave := w.watch(in(allNodes))
	defer leave()
	one, leaveOne := w.watch(in("b"))
	defer leaveOne()
	run("a", "1")
	run("b", "2")
	for _, want := range []struct{ node, uid string }{{"a", "1"}, {"a", "1"}, {"b", "2"}, {"b", "2"}} {
		s := (<-all).PodSandboxStatus
		if s.Annotations[nodeKey] != want.node || s.Metadata.Uid != want.uid || s.Annotations["own"] != want.uid {
			t.Errorf("%v, want node %s, pod %s", s, want.node, want.uid)
		}
	}
	if e := <-one; e.PodSandboxStatus.Metadata.Uid != "2" || e.PodSandboxStatus.Annotations[nodeKey] != "" {
		t.Errorf("the stream of one node has %v", e)
	}
	if got := w.nodes["a"].sandboxes; len(got) != 1 {
		t.Errorf("%d sandboxes", len(got))
	}
	for _, s := range w.nodes["a"].sandboxes {
		if s.config.Annotations[nodeKey] != "" {
			t.Error("the sandbox itself got the annotation")
		}
	}
	for i := 0; i <= allBuffer/2; i++ {
		run("a", "many")
		clear(w.nodes["a"].sandboxes) // addresses are few
	}
	ended := false
	for range allBuffer + 1 {
		if _, ok := <-all; !ok {
			ended = true
			break
		}
	}
	if !ended || len(w.all) != 0 {
		t.Errorf("ended: %t; %d watchers", ended, len(w.all))
	}
	w.close()
	late, leaveLate := w.watch(in(allNodes))
	defer leaveLate()
	if _, ok := <-late; ok {
		t.Error("a stream of a runtime that stopped")
	}
}
