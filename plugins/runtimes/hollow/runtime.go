package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeServer serves CRI's RuntimeService. What it does not implement (exec,
// attach, port-forward, checkpoints) answers Unimplemented.
type runtimeServer struct {
	runtimev1.UnimplementedRuntimeServiceServer
	world *world
}

func (r *runtimeServer) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{Version: "0.1.0", RuntimeName: "hollow", RuntimeVersion: version, RuntimeApiVersion: "v1"}, nil
}

func (r *runtimeServer) Status(context.Context, *runtimev1.StatusRequest) (*runtimev1.StatusResponse, error) {
	return &runtimev1.StatusResponse{
		Status: &runtimev1.RuntimeStatus{Conditions: []*runtimev1.RuntimeCondition{
			{Type: runtimev1.RuntimeReady, Status: true}, {Type: runtimev1.NetworkReady, Status: true},
		}},
		RuntimeHandlers: []*runtimev1.RuntimeHandler{{}},
	}, nil
}

func (r *runtimeServer) UpdateRuntimeConfig(context.Context, *runtimev1.UpdateRuntimeConfigRequest) (*runtimev1.UpdateRuntimeConfigResponse, error) {
	return &runtimev1.UpdateRuntimeConfigResponse{}, nil
}

func (r *runtimeServer) RunPodSandbox(ctx context.Context, req *runtimev1.RunPodSandboxRequest) (*runtimev1.RunPodSandboxResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n := r.world.of(ctx)
	ip, err := n.ip(ctx)
	if err != nil {
		return nil, err
	}
	s := &sandbox{
		id: r.world.id(), config: req.Config, state: runtimev1.PodSandboxState_SANDBOX_READY,
		created: time.Now().UnixNano(), ip: ip, handler: req.RuntimeHandler,
	}
	if n.sandboxes == nil {
		n.sandboxes = map[string]*sandbox{}
	}
	n.sandboxes[s.id] = s
	n.tell(runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT, s, s.id)
	n.tell(runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT, s, s.id)
	return &runtimev1.RunPodSandboxResponse{PodSandboxId: s.id}, nil
}

func (r *runtimeServer) StopPodSandbox(ctx context.Context, req *runtimev1.StopPodSandboxRequest) (*runtimev1.StopPodSandboxResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n := r.world.of(ctx)
	if s := n.sandboxes[req.PodSandboxId]; s != nil && s.state == runtimev1.PodSandboxState_SANDBOX_READY {
		for _, c := range n.containers {
			if c.sandbox == s {
				n.exit(c, 137)
			}
		}
		s.state = runtimev1.PodSandboxState_SANDBOX_NOTREADY
		n.tell(runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT, s, s.id)
	}
	return &runtimev1.StopPodSandboxResponse{}, nil
}

func (r *runtimeServer) RemovePodSandbox(ctx context.Context, req *runtimev1.RemovePodSandboxRequest) (*runtimev1.RemovePodSandboxResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n := r.world.of(ctx)
	if s := n.sandboxes[req.PodSandboxId]; s != nil {
		for _, c := range n.containers {
			if c.sandbox == s {
				n.remove(c)
			}
		}
		delete(n.sandboxes, s.id)
		n.tell(runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT, s, s.id)
	}
	return &runtimev1.RemovePodSandboxResponse{}, nil
}

func (r *runtimeServer) PodSandboxStatus(ctx context.Context, req *runtimev1.PodSandboxStatusRequest) (*runtimev1.PodSandboxStatusResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n := r.world.of(ctx)
	s := n.sandboxes[req.PodSandboxId]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", req.PodSandboxId)
	}
	resp := &runtimev1.PodSandboxStatusResponse{Status: s.status(), Timestamp: time.Now().UnixNano()}
	for _, c := range n.containers {
		if c.sandbox == s {
			resp.ContainersStatuses = append(resp.ContainersStatuses, c.status())
		}
	}
	return resp, nil
}

func (r *runtimeServer) ListPodSandbox(ctx context.Context, req *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	resp := &runtimev1.ListPodSandboxResponse{}
	f := req.GetFilter()
	for _, s := range r.world.of(ctx).sandboxes {
		if f.GetId() != "" && f.GetId() != s.id || f.GetState() != nil && f.GetState().State != s.state ||
			!matches(f.GetLabelSelector(), s.config.GetLabels()) {
			continue
		}
		resp.Items = append(resp.Items, &runtimev1.PodSandbox{
			Id: s.id, Metadata: s.config.GetMetadata(), State: s.state, CreatedAt: s.created,
			Labels: s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
		})
	}
	return resp, nil
}

func (r *runtimeServer) CreateContainer(ctx context.Context, req *runtimev1.CreateContainerRequest) (*runtimev1.CreateContainerResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n := r.world.of(ctx)
	s := n.sandboxes[req.PodSandboxId]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", req.PodSandboxId)
	}
	c := &container{id: r.world.id(), sandbox: s, config: req.Config, created: time.Now().UnixNano()}
	if n.containers == nil {
		n.containers = map[string]*container{}
	}
	n.containers[c.id] = c
	n.tell(runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT, s, c.id)
	return &runtimev1.CreateContainerResponse{ContainerId: c.id}, nil
}

// find returns a container of the calling node.
func (r *runtimeServer) find(ctx context.Context, id string) (*node, *container, error) {
	n := r.world.of(ctx)
	if c := n.containers[id]; c != nil {
		return n, c, nil
	}
	return n, nil, status.Errorf(codes.NotFound, "container %q not found", id)
}

func (r *runtimeServer) StartContainer(ctx context.Context, req *runtimev1.StartContainerRequest) (*runtimev1.StartContainerResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	n, c, err := r.find(ctx, req.ContainerId)
	if err != nil {
		return nil, err
	}
	if c.state != runtimev1.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.FailedPrecondition, "container %q is not in state created", c.id)
	}
	r.world.start(n, c)
	return &runtimev1.StartContainerResponse{}, nil
}

func (r *runtimeServer) StopContainer(ctx context.Context, req *runtimev1.StopContainerRequest) (*runtimev1.StopContainerResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	// A hollow container ends on SIGTERM at once.
	if n, c, err := r.find(ctx, req.ContainerId); err == nil {
		n.exit(c, 0)
	}
	return &runtimev1.StopContainerResponse{}, nil
}

func (r *runtimeServer) RemoveContainer(ctx context.Context, req *runtimev1.RemoveContainerRequest) (*runtimev1.RemoveContainerResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if n, c, err := r.find(ctx, req.ContainerId); err == nil {
		n.remove(c)
	}
	return &runtimev1.RemoveContainerResponse{}, nil
}

func (r *runtimeServer) ListContainers(ctx context.Context, req *runtimev1.ListContainersRequest) (*runtimev1.ListContainersResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	resp := &runtimev1.ListContainersResponse{}
	f := req.GetFilter()
	for _, c := range r.world.of(ctx).containers {
		if f.GetId() != "" && f.GetId() != c.id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox.id ||
			f.GetState() != nil && f.GetState().State != c.state || !matches(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		resp.Containers = append(resp.Containers, &runtimev1.Container{
			Id: c.id, PodSandboxId: c.sandbox.id, Metadata: c.config.GetMetadata(), Image: c.config.GetImage(),
			ImageRef: c.config.GetImage().GetImage(), ImageId: c.config.GetImage().GetImage(), State: c.state, CreatedAt: c.created,
			Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(),
		})
	}
	return resp, nil
}

func (r *runtimeServer) ContainerStatus(ctx context.Context, req *runtimev1.ContainerStatusRequest) (*runtimev1.ContainerStatusResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	_, c, err := r.find(ctx, req.ContainerId)
	if err != nil {
		return nil, err
	}
	return &runtimev1.ContainerStatusResponse{Status: c.status()}, nil
}

func (r *runtimeServer) UpdateContainerResources(context.Context, *runtimev1.UpdateContainerResourcesRequest) (*runtimev1.UpdateContainerResourcesResponse, error) {
	return &runtimev1.UpdateContainerResourcesResponse{}, nil
}

func (r *runtimeServer) ReopenContainerLog(context.Context, *runtimev1.ReopenContainerLogRequest) (*runtimev1.ReopenContainerLogResponse, error) {
	return &runtimev1.ReopenContainerLogResponse{}, nil
}

// ExecSync succeeds without output, so that exec probes and hooks pass.
func (r *runtimeServer) ExecSync(ctx context.Context, req *runtimev1.ExecSyncRequest) (*runtimev1.ExecSyncResponse, error) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if _, _, err := r.find(ctx, req.ContainerId); err != nil {
		return nil, err
	}
	return &runtimev1.ExecSyncResponse{}, nil
}

func (r *runtimeServer) ListContainerStats(context.Context, *runtimev1.ListContainerStatsRequest) (*runtimev1.ListContainerStatsResponse, error) {
	return &runtimev1.ListContainerStatsResponse{}, nil
}

func (r *runtimeServer) ListPodSandboxStats(context.Context, *runtimev1.ListPodSandboxStatsRequest) (*runtimev1.ListPodSandboxStatsResponse, error) {
	return &runtimev1.ListPodSandboxStatsResponse{}, nil
}

// eventBuffer and allBuffer are how many events a stream of one node, or of
// all, may lag behind.
const eventBuffer, allBuffer = 1024, 64 << 10

func (r *runtimeServer) GetContainerEvents(_ *runtimev1.GetEventsRequest, stream grpc.ServerStreamingServer[runtimev1.ContainerEventResponse]) error {
	events, leave := r.world.watch(stream.Context())
	defer leave()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case e, ok := <-events:
			if !ok {
				return status.Error(codes.Unavailable, "the hollow runtime stops, or events were not read fast enough")
			}
			if err := stream.Send(e); err != nil {
				return err
			}
		}
	}
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}
