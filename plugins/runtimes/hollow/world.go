package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// gRPC metadata of a call: the node it belongs to, and that node's range of
// pod IPs.
const (
	nodeKey    = "pintle-node"
	podCIDRKey = "pintle-pod-cidr"
)

// Annotations of a pod that say how its containers end.
const (
	runForAnnotation   = "hollow.pintle.dev/run-for"   // a duration; none: until stopped
	exitCodeAnnotation = "hollow.pintle.dev/exit-code" // default 0
)

// world holds every hollow node.
type world struct {
	mu     sync.Mutex
	nodes  map[string]*node
	nextID uint64
	closed bool
	all    map[chan *runtimev1.ContainerEventResponse]bool // watchers of every node
}

func newWorld() *world {
	return &world{nodes: map[string]*node{}, all: map[chan *runtimev1.ContainerEventResponse]bool{}}
}

// node is the state of one hollow node.
type node struct {
	world      *world
	name       string
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*runtimev1.Image
	lastIP     netip.Addr // handed out last
	watchers   map[chan *runtimev1.ContainerEventResponse]bool
}

type sandbox struct {
	id      string
	config  *runtimev1.PodSandboxConfig
	state   runtimev1.PodSandboxState
	created int64
	ip      string
	handler string
}

type container struct {
	id                         string
	sandbox                    *sandbox
	config                     *runtimev1.ContainerConfig
	state                      runtimev1.ContainerState
	created, started, finished int64
	exitCode                   int32
	reason                     string
	timer                      *time.Timer
}

// of returns the node that a call belongs to. The caller holds mu.
func (w *world) of(ctx context.Context) *node {
	name := told(ctx, nodeKey)
	n := w.nodes[name]
	if n == nil {
		// Its maps are made when something is put in: most nodes of many are empty.
		n = &node{world: w, name: name}
		w.nodes[name] = n
	}
	return n
}

// id returns a new identifier, of the length that tools expect.
func (w *world) id() string {
	w.nextID++
	return fmt.Sprintf("%064x", w.nextID)
}

// told is the value of a call's metadata, "" without one.
func told(ctx context.Context, key string) string {
	if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// nameless is the range of a caller that says none.
const nameless = "10.128.0.0/9"

// ip returns an address of the node's range that no sandbox has which is ready: one that
// was stopped has given its own back, and stays as long as its pod's object. No packet
// ever reaches an address. Addresses that were given back come last, so that
// who has an old one does not meet another pod at once.
func (n *node) ip(ctx context.Context) (string, error) {
	cidr := cmp.Or(told(ctx, podCIDRKey), nameless)
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil || !prefix.Addr().Is4() {
		return "", status.Errorf(codes.InvalidArgument, "range of pod IPs %q is not an IPv4 range", cidr)
	}
	prefix = prefix.Masked()
	taken := map[string]bool{}
	for _, s := range n.sandboxes {
		if s.state == runtimev1.PodSandboxState_SANDBOX_READY {
			taken[s.ip] = true
		}
	}
	ip := n.lastIP
	for range len(taken) + 3 { // besides those taken: the network itself, the broadcast, and a free one
		if ip = ip.Next(); !prefix.Contains(ip) {
			ip = prefix.Addr().Next()
		}
		if prefix.Contains(ip) && prefix.Contains(ip.Next()) && !taken[ip.String()] {
			n.lastIP = ip
			return ip.String(), nil
		}
	}
	return "", status.Errorf(codes.ResourceExhausted, "no address of %s is free", prefix)
}

// allNodes in place of a node's name asks for the events of all nodes.
const allNodes = "*"

// watch has events of the calling node, or of all, sent until leave is called.
// A channel that is closed ends the stream.
func (w *world) watch(ctx context.Context) (events chan *runtimev1.ContainerEventResponse, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watchers, size := w.all, allBuffer
	if told(ctx, nodeKey) != allNodes {
		n := w.of(ctx)
		if n.watchers == nil {
			n.watchers = map[chan *runtimev1.ContainerEventResponse]bool{}
		}
		watchers, size = n.watchers, eventBuffer
	}
	events = make(chan *runtimev1.ContainerEventResponse, size)
	if w.closed {
		close(events)
		return events, func() {}
	}
	watchers[events] = true
	return events, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(watchers, events)
	}
}

// tell sends an event to whoever streams them. One who streams a node's and
// does not keep up misses it and finds out by listing; the stream of all nodes
// ends, since who lost an event there would have to list them all.
func (n *node) tell(kind runtimev1.ContainerEventType, s *sandbox, containerID string) {
	if len(n.watchers) == 0 && len(n.world.all) == 0 {
		return
	}
	event := &runtimev1.ContainerEventResponse{
		ContainerId: containerID, ContainerEventType: kind, CreatedAt: time.Now().UnixNano(), PodSandboxStatus: s.status(),
	}
	for _, c := range n.containers {
		if c.sandbox == s {
			event.ContainersStatuses = append(event.ContainersStatuses, c.status())
		}
	}
	for ch := range n.watchers {
		select {
		case ch <- event:
		default:
		}
	}
	if len(n.world.all) == 0 {
		return
	}
	named := &runtimev1.ContainerEventResponse{
		ContainerId: event.ContainerId, ContainerEventType: kind, CreatedAt: event.CreatedAt,
		PodSandboxStatus: s.status(), ContainersStatuses: event.ContainersStatuses,
	}
	named.PodSandboxStatus.Annotations = maps.Clone(named.PodSandboxStatus.Annotations)
	if named.PodSandboxStatus.Annotations == nil {
		named.PodSandboxStatus.Annotations = map[string]string{}
	}
	named.PodSandboxStatus.Annotations[nodeKey] = n.name
	for ch := range n.world.all {
		select {
		case ch <- named:
		default:
			close(ch)
			delete(n.world.all, ch)
		}
	}
}

// start lets a container run, and end by itself if its pod says so.
func (w *world) start(n *node, c *container) {
	c.state, c.started = runtimev1.ContainerState_CONTAINER_RUNNING, time.Now().UnixNano()
	annotations := c.sandbox.config.GetAnnotations()
	if after, err := time.ParseDuration(annotations[runForAnnotation]); err == nil {
		code, _ := strconv.ParseInt(annotations[exitCodeAnnotation], 10, 32)
		c.timer = time.AfterFunc(after, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !w.closed && n.containers[c.id] == c {
				n.exit(c, int32(code))
			}
		})
	}
	n.tell(runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT, c.sandbox, c.id)
}

// exit ends a container that runs.
func (n *node) exit(c *container, code int32) {
	if c.state != runtimev1.ContainerState_CONTAINER_RUNNING {
		return
	}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.state, c.finished, c.exitCode, c.reason = runtimev1.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code, "Completed"
	if code != 0 {
		c.reason = "Error"
	}
	n.tell(runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT, c.sandbox, c.id)
}

func (n *node) remove(c *container) {
	n.exit(c, 137)
	delete(n.containers, c.id)
	n.tell(runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT, c.sandbox, c.id)
}

// close stops every timer.
func (w *world) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for ch := range w.all {
		close(ch)
		delete(w.all, ch)
	}
	for _, n := range w.nodes {
		for _, c := range n.containers {
			if c.timer != nil {
				c.timer.Stop()
			}
		}
		for ch := range n.watchers {
			close(ch)
			delete(n.watchers, ch)
		}
	}
}

func (s *sandbox) status() *runtimev1.PodSandboxStatus {
	return &runtimev1.PodSandboxStatus{
		Id: s.id, Metadata: s.config.GetMetadata(), State: s.state, CreatedAt: s.created,
		Network: &runtimev1.PodSandboxNetworkStatus{Ip: s.ip},
		Linux:   &runtimev1.LinuxPodSandboxStatus{Namespaces: &runtimev1.Namespace{Options: s.config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels:  s.config.GetLabels(), Annotations: s.config.GetAnnotations(), RuntimeHandler: s.handler,
	}
}

func (c *container) status() *runtimev1.ContainerStatus {
	return &runtimev1.ContainerStatus{
		Id: c.id, Metadata: c.config.GetMetadata(), State: c.state,
		CreatedAt: c.created, StartedAt: c.started, FinishedAt: c.finished, ExitCode: c.exitCode, Reason: c.reason,
		Image: c.config.GetImage(), ImageRef: c.config.GetImage().GetImage(), ImageId: c.config.GetImage().GetImage(),
		Labels: c.config.GetLabels(), Annotations: c.config.GetAnnotations(), Mounts: c.config.GetMounts(),
	}
}
