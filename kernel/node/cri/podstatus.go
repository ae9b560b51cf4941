package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod is what a listing tells of one pod: cheap, for the lifecycle event generator.
type Pod struct {
	types.NamespacedName
	UID        types.UID
	Sandboxes  []*runtimeapi.PodSandbox // newest first
	Containers []*runtimeapi.Container  // newest first
}

// Container is one container as the runtime sees it.
type Container struct {
	ID, Name, SandboxID string
	State               runtimeapi.ContainerState
	Created             time.Time
	Started, Finished   time.Time
	ExitCode            int32
	Reason, Message     string
	// Image is the name asked for, ImageRef what is reported as imageID (a digest reference), ImageID the local id.
	Image, ImageRef, ImageID string
	Hash                     uint64
	RestartCount             int32
	MessagePath              string
	MessagePolicy            corev1.TerminationMessagePolicy
	// MessageFile is the host path mounted at MessagePath.
	MessageFile     string
	LogPath         string
	PreStop         *corev1.LifecycleHandler
	Ports           []corev1.ContainerPort
	DeletionGrace   *int64
	TerminateGrace  *int64
	Resources       *runtimeapi.ContainerResources
	User            *runtimeapi.ContainerUser
	Mounts          []*runtimeapi.Mount
	RestartsUnknown bool
}

// Running tells that the container has a live process.
func (c *Container) Running() bool { return c.State == runtimeapi.ContainerState_CONTAINER_RUNNING }

// Exited tells that the container ran and ended.
func (c *Container) Exited() bool { return c.State == runtimeapi.ContainerState_CONTAINER_EXITED }

// PodStatus is one pod as the runtime sees it.
type PodStatus struct {
	types.NamespacedName
	UID types.UID
	// Sandboxes, newest first; only the first one is in use.
	Sandboxes []*runtimeapi.PodSandboxStatus
	// Containers, newest first, of all sandboxes.
	Containers []*Container
	// IPs of the newest ready sandbox; empty for host network.
	IPs []string
	// Taken is when the runtime was asked.
	Taken time.Time
}

// Find is the newest container of that name, or nil.
func (s *PodStatus) Find(name string) *Container {
	for _, c := range s.Containers {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// ByID is the container with that id, or nil.
func (s *PodStatus) ByID(id string) *Container {
	for _, c := range s.Containers {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Running are the containers with a live process, newest first.
func (s *PodStatus) Running() []*Container {
	var running []*Container
	for _, c := range s.Containers {
		if c.Running() {
			running = append(running, c)
		}
	}
	return running
}

// ReadySandbox is the newest sandbox if it is ready, else nil.
func (s *PodStatus) ReadySandbox() *runtimeapi.PodSandboxStatus {
	if len(s.Sandboxes) > 0 && s.Sandboxes[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
		return s.Sandboxes[0]
	}
	return nil
}

// List groups every sandbox and container that carries pod labels by pod. Others are not ours and are left out (CGC-3).
func (c *Client) List(ctx context.Context) (map[types.UID]*Pod, error) {
	sandboxes, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	pods := map[types.UID]*Pod{}
	pod := func(labels map[string]string) *Pod {
		name, uid, ok := owner(labels)
		if !ok {
			return nil
		}
		p := pods[uid]
		if p == nil {
			p = &Pod{NamespacedName: name, UID: uid}
			pods[uid] = p
		}
		return p
	}
	for _, s := range sandboxes.Items {
		if p := pod(s.Labels); p != nil {
			p.Sandboxes = append(p.Sandboxes, s)
		}
	}
	for _, ct := range containers.Containers {
		if p := pod(ct.Labels); p != nil {
			p.Containers = append(p.Containers, ct)
		}
	}
	for _, p := range pods {
		slices.SortFunc(p.Sandboxes, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
		slices.SortFunc(p.Containers, func(a, b *runtimeapi.Container) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	}
	return pods, nil
}

// PodStatus asks the runtime for everything about one pod. What disappears between two calls is left out.
func (c *Client) PodStatus(ctx context.Context, uid types.UID) (*PodStatus, error) {
	taken := time.Now()
	sandboxes, err := c.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{LabelPodUID: string(uid)}}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes of pod %s: %w", uid, err)
	}
	slices.SortFunc(sandboxes.Items, func(a, b *runtimeapi.PodSandbox) int { return cmp.Compare(b.CreatedAt, a.CreatedAt) })
	ids := make([]string, len(sandboxes.Items))
	for i, s := range sandboxes.Items {
		ids[i] = s.Id
	}
	return c.podStatus(ctx, uid, ids, taken)
}

// PodStatusOf is PodStatus of a pod whose sandboxes are known, newest first: there are no others.
func (c *Client) PodStatusOf(ctx context.Context, uid types.UID, sandboxes []string) (*PodStatus, error) {
	return c.podStatus(ctx, uid, sandboxes, time.Now())
}

func (c *Client) podStatus(ctx context.Context, uid types.UID, sandboxes []string, taken time.Time) (*PodStatus, error) {
	st := &PodStatus{UID: uid, Taken: taken}
	whole := len(sandboxes) > 0 // the sandboxes' statuses have those of the containers
	for _, id := range sandboxes {
		resp, err := c.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
		if IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("status of sandbox %s: %w", id, err)
		}
		if resp.Status == nil || resp.Status.Metadata == nil {
			return nil, fmt.Errorf("status of sandbox %s: the runtime answered without status", id)
		}
		st.Sandboxes = append(st.Sandboxes, resp.Status)
		// A runtime that says as of when its answer is tells the containers with it.
		whole = whole && resp.Timestamp != 0
		for _, ct := range resp.ContainersStatuses {
			if ct.GetMetadata() == nil {
				whole = false
				break
			}
			st.Containers = append(st.Containers, newContainer(&runtimeapi.Container{PodSandboxId: id}, ct))
		}
		if name, _, ok := owner(resp.Status.Labels); ok {
			st.NamespacedName = name
		}
	}
	if len(st.Sandboxes) > 0 && st.Sandboxes[0].State == runtimeapi.PodSandboxState_SANDBOX_READY {
		st.IPs = c.SandboxIPs(st.Sandboxes[0])
	}
	byAge := func(a, b *Container) int { return b.Created.Compare(a.Created) }
	if whole {
		slices.SortFunc(st.Containers, byAge)
		return st, nil
	}
	st.Containers = nil
	containers, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{LabelPodUID: string(uid)}}})
	if err != nil {
		return nil, fmt.Errorf("list containers of pod %s: %w", uid, err)
	}
	for _, ct := range containers.Containers {
		resp, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: ct.Id})
		if IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("status of container %s: %w", ct.Id, err)
		}
		if resp.Status == nil || resp.Status.Metadata == nil {
			return nil, fmt.Errorf("status of container %s: the runtime answered without status", ct.Id)
		}
		st.Containers = append(st.Containers, newContainer(ct, resp.Status))
		if name, _, ok := owner(resp.Status.Labels); ok {
			st.NamespacedName = name
		}
	}
	slices.SortFunc(st.Containers, byAge)
	return st, nil
}

// SandboxIPs are the addresses of a sandbox that the API takes: one of each family at most, first that of the family of
// the node's first address, whatever order the runtime has.
func (c *Client) SandboxIPs(s *runtimeapi.PodSandboxStatus) (ips []string) {
	if s.Network == nil || s.Network.Ip == "" {
		return nil
	}
	all := []string{s.Network.Ip}
	for _, extra := range s.Network.AdditionalIps {
		all = append(all, extra.Ip)
	}
	for _, ipv6 := range []bool{c.PreferIPv6, !c.PreferIPv6} {
		for _, text := range all {
			if a, err := netip.ParseAddr(text); err == nil && a.Unmap().Is6() == ipv6 {
				ips = append(ips, text)
				break
			}
		}
	}
	return ips
}

func newContainer(listed *runtimeapi.Container, s *runtimeapi.ContainerStatus) *Container {
	a := s.Annotations
	c := &Container{
		ID: s.Id, Name: s.Labels[LabelContainerName], SandboxID: listed.PodSandboxId, State: s.State,
		Created: unixNano(s.CreatedAt), Started: unixNano(s.StartedAt), Finished: unixNano(s.FinishedAt),
		ExitCode: s.ExitCode, Reason: s.Reason, Message: s.Message,
		ImageRef: s.ImageRef, ImageID: s.ImageId,
		MessagePath: a[annotationMessagePath], MessagePolicy: corev1.TerminationMessagePolicy(a[annotationMessagePolicy]),
		LogPath: s.LogPath, Resources: s.Resources, User: s.User, Mounts: s.Mounts,
	}
	if c.Name == "" {
		c.Name = s.Metadata.Name
	}
	if s.Image != nil {
		c.Image = s.Image.Image
		if s.Image.UserSpecifiedImage != "" {
			c.Image = s.Image.UserSpecifiedImage
		}
	}
	c.Hash, _ = strconv.ParseUint(a[annotationHash], 16, 64)
	if n, err := strconv.ParseInt(a[annotationRestartCount], 10, 32); err == nil {
		c.RestartCount = int32(n)
	} else {
		c.RestartCount, c.RestartsUnknown = int32(s.Metadata.Attempt), true
	}
	c.DeletionGrace, c.TerminateGrace = optionalInt(a[annotationDeletionGrace]), optionalInt(a[annotationTerminateGrace])
	// Annotations that do not parse were not written by us: they are as good as absent.
	if raw := a[annotationPreStop]; raw != "" {
		h := &corev1.LifecycleHandler{}
		if json.Unmarshal([]byte(raw), h) == nil {
			c.PreStop = h
		}
	}
	if raw := a[annotationPorts]; raw != "" {
		_ = json.Unmarshal([]byte(raw), &c.Ports)
	}
	for _, m := range s.Mounts {
		if c.MessagePath != "" && m.ContainerPath == c.MessagePath {
			c.MessageFile = m.HostPath
		}
	}
	return c
}

func optionalInt(s string) *int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func unixNano(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
