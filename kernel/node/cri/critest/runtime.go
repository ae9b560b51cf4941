package critest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Container is a record of a container.
type Container struct {
	ID        string
	SandboxID string
	Config    *runtimeapi.ContainerConfig
	Sandbox   *runtimeapi.PodSandboxConfig
	Status    *runtimeapi.ContainerStatus
	StopGrace int64  // seconds that the last StopContainer gave
	Memory    uint64 // bytes in use, as statistics tell
}

// Sandbox is a record of a sandbox.
type Sandbox struct {
	ID     string
	Config *runtimeapi.PodSandboxConfig
	Status *runtimeapi.PodSandboxStatus
}

// Runtime is the fake. Its hooks are set before use or under Lock.
type Runtime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	Endpoint string // unix://…

	sync.Mutex
	Calls      []string // method names in order, changing calls only
	Nodes      map[string]bool
	Sandboxes  map[string]*Sandbox
	Containers map[string]*Container
	Images     map[string]*runtimeapi.Image
	// OnPull decides about a pull; nil: every pull succeeds.
	OnPull func(image string, auth *runtimeapi.AuthConfig) error
	// OnCreate, OnStart, OnSandbox, OnStopSandbox may refuse.
	OnSandbox     func(*runtimeapi.PodSandboxConfig) error
	OnStopSandbox func(*Sandbox) error
	OnList        func() error
	OnCreate      func(*runtimeapi.ContainerConfig) error
	OnStart       func(*Container) error
	OnUpdate      func(*Container, *runtimeapi.LinuxContainerResources) error
	// OnExec plays a command; nil: exit code 0.
	OnExec func(ctx context.Context, c *Container, command []string) (exit int32, stdout string)
	// OnStop plays the process: it may block as a process would; nil: it ends at once with 143.
	OnStop func(c *Container, grace int64)
	// NoEvents refuses the event stream.
	NoEvents bool
	// Whole tells the containers with the status of a sandbox, and dates events.
	Whole bool
	// Questions counts lists of containers and their statuses.
	Questions int

	seq     int
	streams map[chan *runtimeapi.ContainerEventResponse]bool
	server  *grpc.Server
}

// New starts a runtime on a socket below the test's directory and ends it with the test.
func New(t testing.TB) *Runtime {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") // short: socket paths are limited to 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "cri.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{
		Endpoint: "unix://" + socket, Nodes: map[string]bool{}, Sandboxes: map[string]*Sandbox{}, Containers: map[string]*Container{},
		Images: map[string]*runtimeapi.Image{}, streams: map[chan *runtimeapi.ContainerEventResponse]bool{}, server: grpc.NewServer(),
	}
	runtimeapi.RegisterRuntimeServiceServer(r.server, r)
	runtimeapi.RegisterImageServiceServer(r.server, r)
	done := make(chan struct{})
	go func() { defer close(done); _ = r.server.Serve(l) }()
	t.Cleanup(func() {
		r.server.Stop()
		<-done
		_ = os.RemoveAll(dir)
	})
	return r
}

func (r *Runtime) called(ctx context.Context, method string) {
	r.Calls = append(r.Calls, method)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		for _, n := range md.Get(cri.NodeMetadata) {
			r.Nodes[n] = true
		}
	}
}

func (r *Runtime) id(prefix string) string {
	r.seq++
	return fmt.Sprintf("%s%d", prefix, r.seq)
}

// now is strictly increasing, so that creation times order containers.
func (r *Runtime) now() int64 { r.seq++; return time.Now().UnixNano() + int64(r.seq) }

// AddImage puts an image on the node.
func (r *Runtime) AddImage(name string) {
	r.Lock()
	defer r.Unlock()
	r.Images[name] = &runtimeapi.Image{Id: "sha256:" + name, RepoTags: []string{name}, Size: 100}
}

func (r *Runtime) image(name string) *runtimeapi.Image {
	if i := r.Images[name]; i != nil {
		return i
	}
	for _, i := range r.Images {
		if i.Id == name {
			return i
		}
	}
	return nil
}

// Find is the newest container of that name in pods of that name, or nil. It locks.
func (r *Runtime) Find(pod, name string) *Container {
	r.Lock()
	defer r.Unlock()
	var found *Container
	for _, c := range r.Containers {
		if c.Config.Labels[cri.LabelPodName] == pod && c.Config.Metadata.Name == name &&
			(found == nil || c.Status.CreatedAt > found.Status.CreatedAt) {
			found = c
		}
	}
	return found
}

// Running tells that the newest container of that name has a process. It locks.
func (r *Runtime) Running(pod, name string) bool {
	c := r.Find(pod, name)
	if c == nil {
		return false
	}
	r.Lock()
	defer r.Unlock()
	return c.Status.State == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// Exit ends a container's process.
func (r *Runtime) Exit(id string, code int32) {
	r.Lock()
	defer r.Unlock()
	r.exit(id, code)
}

func (r *Runtime) exit(id string, code int32) {
	c := r.Containers[id]
	if c == nil || c.Status.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		return
	}
	c.Status.State = runtimeapi.ContainerState_CONTAINER_EXITED
	c.Status.ExitCode, c.Status.FinishedAt = code, r.now()
	c.Status.Reason = "Completed"
	if code != 0 {
		c.Status.Reason = "Error"
	}
	r.emit(c.SandboxID, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

func (r *Runtime) emit(sandbox string, kind runtimeapi.ContainerEventType) {
	s := r.Sandboxes[sandbox]
	if s == nil {
		return
	}
	event := &runtimeapi.ContainerEventResponse{ContainerEventType: kind, PodSandboxStatus: s.Status}
	if r.Whole {
		event.CreatedAt = time.Now().UnixNano()
	}
	for ch := range r.streams {
		select {
		case ch <- event:
		default:
		}
	}
}

// Version implements CRI.
func (r *Runtime) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1.0", RuntimeApiVersion: "v1"}, nil
}

// Status implements CRI.
func (r *Runtime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}}, nil
}

// UpdateRuntimeConfig implements CRI.
func (r *Runtime) UpdateRuntimeConfig(context.Context, *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return &runtimeapi.UpdateRuntimeConfigResponse{}, nil
}

// RunPodSandbox implements CRI.
func (r *Runtime) RunPodSandbox(ctx context.Context, req *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "RunPodSandbox")
	if r.OnSandbox != nil {
		if err := r.OnSandbox(req.Config); err != nil {
			return nil, err
		}
	}
	id := r.id("s")
	s := &Sandbox{ID: id, Config: req.Config, Status: &runtimeapi.PodSandboxStatus{
		Id: id, Metadata: req.Config.Metadata, State: runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: r.now(),
		Labels: req.Config.Labels, Annotations: req.Config.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: req.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
	}}
	if req.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() != runtimeapi.NamespaceMode_NODE {
		s.Status.Network = &runtimeapi.PodSandboxNetworkStatus{Ip: "127.0.0.1"}
	}
	r.Sandboxes[id] = s
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: id}, nil
}

// StopPodSandbox implements CRI.
func (r *Runtime) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "StopPodSandbox")
	if s := r.Sandboxes[req.PodSandboxId]; s != nil {
		if r.OnStopSandbox != nil {
			if err := r.OnStopSandbox(s); err != nil {
				return nil, err
			}
		}
		for id, c := range r.Containers {
			if c.SandboxID == s.ID {
				r.exit(id, 137)
			}
		}
		s.Status.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox implements CRI.
func (r *Runtime) RemovePodSandbox(ctx context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "RemovePodSandbox")
	for id, c := range r.Containers {
		if c.SandboxID == req.PodSandboxId {
			delete(r.Containers, id)
		}
	}
	delete(r.Sandboxes, req.PodSandboxId)
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus implements CRI.
func (r *Runtime) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	r.Lock()
	defer r.Unlock()
	s := r.Sandboxes[req.PodSandboxId]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", req.PodSandboxId)
	}
	resp := &runtimeapi.PodSandboxStatusResponse{Status: clone(s.Status)}
	if r.Whole {
		resp.Timestamp = time.Now().UnixNano()
		for _, c := range r.Containers {
			if c.SandboxID == s.ID {
				resp.ContainersStatuses = append(resp.ContainersStatuses, clone(c.Status))
			}
		}
	}
	return resp, nil
}

func match(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// ListPodSandbox implements CRI.
func (r *Runtime) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.Lock()
	defer r.Unlock()
	if r.OnList != nil {
		if err := r.OnList(); err != nil {
			return nil, err
		}
	}
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, s := range r.Sandboxes {
		if match(req.GetFilter().GetLabelSelector(), s.Config.Labels) {
			resp.Items = append(resp.Items, &runtimeapi.PodSandbox{Id: s.ID, Metadata: s.Config.Metadata, State: s.Status.State, CreatedAt: s.Status.CreatedAt, Labels: s.Config.Labels})
		}
	}
	return resp, nil
}

// CreateContainer implements CRI.
func (r *Runtime) CreateContainer(ctx context.Context, req *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "CreateContainer "+req.Config.Metadata.Name)
	if r.OnCreate != nil {
		if err := r.OnCreate(req.Config); err != nil {
			return nil, err
		}
	}
	id := r.id("c")
	r.Containers[id] = &Container{ID: id, SandboxID: req.PodSandboxId, Config: req.Config, Sandbox: req.SandboxConfig, Status: &runtimeapi.ContainerStatus{
		Id: id, Metadata: req.Config.Metadata, State: runtimeapi.ContainerState_CONTAINER_CREATED, CreatedAt: r.now(),
		Image: &runtimeapi.ImageSpec{Image: req.Config.Image.UserSpecifiedImage}, ImageRef: req.Config.Image.Image, ImageId: req.Config.Image.Image,
		Labels: req.Config.Labels, Annotations: req.Config.Annotations, Mounts: req.Config.Mounts,
		LogPath:   filepath.Join(req.SandboxConfig.LogDirectory, req.Config.LogPath),
		Resources: &runtimeapi.ContainerResources{Linux: req.Config.GetLinux().GetResources()},
	}}
	return &runtimeapi.CreateContainerResponse{ContainerId: id}, nil
}

// StartContainer implements CRI.
func (r *Runtime) StartContainer(ctx context.Context, req *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	r.Lock()
	defer r.Unlock()
	c := r.Containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	r.called(ctx, "StartContainer "+c.Config.Metadata.Name)
	if r.OnStart != nil {
		if err := r.OnStart(c); err != nil {
			c.Status.State, c.Status.ExitCode, c.Status.Reason, c.Status.Message, c.Status.FinishedAt = runtimeapi.ContainerState_CONTAINER_EXITED, 128, "StartError", err.Error(), r.now()
			return nil, err
		}
	}
	c.Status.State, c.Status.StartedAt = runtimeapi.ContainerState_CONTAINER_RUNNING, r.now()
	r.emit(c.SandboxID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.StartContainerResponse{}, nil
}

// UpdateContainerResources implements CRI.
func (r *Runtime) UpdateContainerResources(ctx context.Context, req *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	r.Lock()
	defer r.Unlock()
	c := r.Containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	r.called(ctx, "UpdateContainerResources "+c.Config.Metadata.Name)
	if r.OnUpdate != nil {
		if err := r.OnUpdate(c, req.Linux); err != nil {
			return nil, err
		}
	}
	c.Status.Resources = &runtimeapi.ContainerResources{Linux: req.Linux}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

// StopContainer implements CRI.
func (r *Runtime) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	r.Lock()
	c := r.Containers[req.ContainerId]
	if c == nil {
		r.Unlock()
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	r.called(ctx, "StopContainer "+c.Config.Metadata.Name)
	c.StopGrace = req.Timeout
	stop := r.OnStop
	r.Unlock()
	if stop != nil {
		stop(c, req.Timeout)
	}
	r.Exit(req.ContainerId, 143)
	return &runtimeapi.StopContainerResponse{}, nil
}

// RemoveContainer implements CRI.
func (r *Runtime) RemoveContainer(ctx context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "RemoveContainer")
	delete(r.Containers, req.ContainerId)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers implements CRI.
func (r *Runtime) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.Questions++
	resp := &runtimeapi.ListContainersResponse{}
	for _, c := range r.Containers {
		if !match(req.GetFilter().GetLabelSelector(), c.Config.Labels) || (req.GetFilter().GetState() != nil && req.Filter.State.State != c.Status.State) {
			continue
		}
		resp.Containers = append(resp.Containers, &runtimeapi.Container{Id: c.ID, PodSandboxId: c.SandboxID, Metadata: c.Config.Metadata, Image: c.Status.Image,
			ImageRef: c.Status.ImageRef, ImageId: c.Status.ImageId, State: c.Status.State, CreatedAt: c.Status.CreatedAt, Labels: c.Config.Labels, Annotations: c.Config.Annotations})
	}
	return resp, nil
}

// ContainerStatus implements CRI.
func (r *Runtime) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	r.Lock()
	defer r.Unlock()
	c := r.Containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	r.Questions++
	return &runtimeapi.ContainerStatusResponse{Status: clone(c.Status)}, nil
}

// ExecSync implements CRI.
func (r *Runtime) ExecSync(ctx context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	r.Lock()
	c, exec := r.Containers[req.ContainerId], r.OnExec
	r.called(ctx, "ExecSync")
	r.Unlock()
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	if exec == nil {
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	code, out := exec(ctx, c, req.Cmd)
	return &runtimeapi.ExecSyncResponse{ExitCode: code, Stdout: []byte(out)}, nil
}

// ReopenContainerLog implements CRI.
func (r *Runtime) ReopenContainerLog(ctx context.Context, req *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "ReopenContainerLog")
	c := r.Containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	return &runtimeapi.ReopenContainerLogResponse{}, os.WriteFile(c.Status.LogPath, nil, 0o640)
}

// ListContainerStats implements CRI.
func (r *Runtime) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	r.Lock()
	defer r.Unlock()
	resp := &runtimeapi.ListContainerStatsResponse{}
	for id := range r.Containers {
		resp.Stats = append(resp.Stats, &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: id},
			Memory: &runtimeapi.MemoryUsage{WorkingSetBytes: &runtimeapi.UInt64Value{Value: 4096}}})
	}
	return resp, nil
}

// ContainerStats implements CRI.
func (r *Runtime) ContainerStats(_ context.Context, req *runtimeapi.ContainerStatsRequest) (*runtimeapi.ContainerStatsResponse, error) {
	r.Lock()
	defer r.Unlock()
	c := r.Containers[req.ContainerId]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.ContainerId)
	}
	return &runtimeapi.ContainerStatsResponse{Stats: &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: c.ID},
		Memory: &runtimeapi.MemoryUsage{UsageBytes: &runtimeapi.UInt64Value{Value: c.Memory}}}}, nil
}

// GetContainerEvents implements CRI.
func (r *Runtime) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	if r.NoEvents {
		return status.Error(codes.Unimplemented, "no events")
	}
	ch := make(chan *runtimeapi.ContainerEventResponse, 100)
	r.Lock()
	r.streams[ch] = true
	r.Unlock()
	defer func() {
		r.Lock()
		delete(r.streams, ch)
		r.Unlock()
	}()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case ev := <-ch:
			if err := stream.Send(ev); err != nil {
				return err
			}
		}
	}
}

// ImageStatus implements CRI.
func (r *Runtime) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	r.Lock()
	defer r.Unlock()
	return &runtimeapi.ImageStatusResponse{Image: r.image(req.Image.Image)}, nil
}

// PullImage implements CRI.
func (r *Runtime) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	r.Lock()
	pull := r.OnPull
	r.called(ctx, "PullImage "+req.Image.Image)
	r.Unlock()
	if pull != nil {
		if err := pull(req.Image.Image, req.Auth); err != nil {
			return nil, err
		}
	}
	r.AddImage(req.Image.Image)
	return &runtimeapi.PullImageResponse{ImageRef: "sha256:" + req.Image.Image}, nil
}

// ListImages implements CRI.
func (r *Runtime) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	r.Lock()
	defer r.Unlock()
	resp := &runtimeapi.ListImagesResponse{}
	for _, i := range r.Images {
		resp.Images = append(resp.Images, i)
	}
	return resp, nil
}

// RemoveImage implements CRI.
func (r *Runtime) RemoveImage(ctx context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	r.Lock()
	defer r.Unlock()
	r.called(ctx, "RemoveImage "+req.Image.Image)
	for name, i := range r.Images {
		if i.Id == req.Image.Image {
			delete(r.Images, name)
		}
	}
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo implements CRI.
func (r *Runtime) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"}}}}, nil
}

// Called is a copy of the changing calls so far.
func (r *Runtime) Called() []string {
	r.Lock()
	defer r.Unlock()
	return append([]string(nil), r.Calls...)
}
