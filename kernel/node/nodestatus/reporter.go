package nodestatus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/record"
	nodeutil "k8s.io/component-helpers/node/util"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/client"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/eviction"
	"pintle.dev/pintle/sdk/localvolumes"
)

// maxImages is how many images are named in the status, the largest first.
const maxImages = 50

// Config is what a reporter is told.
type Config struct {
	Name, Hostname string
	// NodeIPs are the internal addresses, one of each family at most. The first is the primary one.
	NodeIPs []string
	Labels  map[string]string
	Taints  []corev1.Taint
	// PodCIDRs are the ranges of pod IPs, one of each family at most.
	PodCIDRs []string
	// PodCIDRsGiven: the Node has PodCIDRs from others, so the reporter never writes them. They may give them to another
	// node once this Node is deleted.
	PodCIDRsGiven      bool
	Capacity, Reserved corev1.ResourceList
	KubeletVersion     string
	RootDir            string
	// LocalVolumes is the directory of the volumes that the node gives to claims; empty: it gives none.
	LocalVolumes   string
	Update, Report time.Duration
	// Simulated: the node has what Capacity says, and not the machine's huge pages.
	Simulated bool
}

// Deps are what a reporter works with.
type Deps struct {
	Client client.Interface
	CRI    *cri.Client
	Events record.EventRecorder
	// Port is the kubelet server's port; 0: none.
	Port func() int32
	// Healthy is nil when pods were listed lately.
	Healthy func(now time.Time) (time.Time, error)
	Images  func() []*runtimeapi.Image
	// Pressures are those that were measured last; nil: nothing is measured, as there is no machine.
	Pressures func() eviction.Pressures
	// Held is what of a capacity the thresholds of eviction keep free; nil: nothing.
	Held   func(capacity corev1.ResourceList) corev1.ResourceList
	Logger *slog.Logger
}

// Reporter keeps one Node object.
type Reporter struct {
	cfg     Config
	deps    Deps
	machine Machine

	mu        sync.Mutex
	node      *corev1.Node
	reported  time.Time
	runtime   string // name reported by the runtime
	version   string
	network   error
	ready     bool
	readySeen bool
	told      map[corev1.NodeConditionType]bool // pressures, as events said last

	rangeLost chan error // has room for one
}

// measured is the machine as it was when the first reporter asked: the same for all agents of a process.
var measured = sync.OnceValue(Measure)

var errNotInspected = errors.New("container runtime status check may not have completed yet")

// New makes a reporter. Register, then have rounds made.
func New(cfg Config, deps Deps) *Reporter {
	machine := measured()
	if cfg.Simulated {
		machine.HugePages = nil
	}
	return &Reporter{cfg: cfg, deps: deps, machine: machine, network: errNotInspected, rangeLost: make(chan error, 1)}
}

// Object is the Node as the API has it (written, or seen since), nil before registration; shared, read only.
func (r *Reporter) Object() *corev1.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Refresh reads the Node from the API; what others wrote to it since is known from then on.
func (r *Reporter) Refresh(ctx context.Context) (*corev1.Node, error) {
	node, err := r.deps.Client.CoreV1().Nodes().Get(ctx, r.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	node.ManagedFields = nil // a third of it, and of no use here
	r.mu.Lock()
	defer r.mu.Unlock()
	r.see(node)
	return r.node, nil
}

// Observe takes the Node as a watch shows it. It reports whether somebody else changed the status, which the next round
// makes true again.
func (r *Reporter) Observe(node *corev1.Node) (foreign bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return false // not registered yet: that looks for itself
	}
	before := r.node
	return r.see(node) && changed(&before.Status, &node.Status)
}

// see keeps the newer one of the Node that is known and another, and reports whether that is the other one. The caller
// holds mu.
func (r *Reporter) see(node *corev1.Node) bool {
	if r.node != nil && r.node.UID == node.UID {
		if order, err := resourceversion.CompareResourceVersion(node.ResourceVersion, r.node.ResourceVersion); err == nil && order < 0 {
			return false
		}
	}
	r.node = node
	if r.cfg.PodCIDRsGiven && len(node.Spec.PodCIDRs) > 0 && !r.hasRange(node) {
		select {
		case r.rangeLost <- rangeLostError{fmt.Sprintf("node %s: its range of pod IPs was %s, and is %v since the Node was made anew; start the agent again, with pods in the new range",
			r.cfg.Name, strings.Join(r.cfg.PodCIDRs, ","), node.Spec.PodCIDRs)}:
		default:
		}
	}
	return true
}

// ErrRangeLost is what the error of RangeLost is (errors.Is).
var ErrRangeLost = errors.New("the node has another range of pod IPs")

type rangeLostError struct{ text string }

func (e rangeLostError) Error() string        { return e.text }
func (e rangeLostError) Is(target error) bool { return target == ErrRangeLost }

// RangeLost has an error, once, when the Node has another range of pod IPs than the one that it was given before. Pods
// here have IPs that another node may have, so the agent has to end.
func (r *Reporter) RangeLost() <-chan error { return r.rangeLost }

// hasRange: PodCIDRs are the ranges of a Node, in any order. A range that the Node has since pods run belongs to it all
// the same, and pods that lack it have to start anew.
func (r *Reporter) hasRange(node *corev1.Node) bool {
	among := func(list []string, text string) bool {
		one, err := netip.ParsePrefix(text)
		return err == nil && slices.ContainsFunc(list, func(text string) bool {
			cidr, err := netip.ParsePrefix(text)
			return err == nil && cidr == one
		})
	}
	return len(r.cfg.PodCIDRs) == len(node.Spec.PodCIDRs) &&
		!slices.ContainsFunc(r.cfg.PodCIDRs, func(text string) bool { return !among(node.Spec.PodCIDRs, text) })
}

// MemoryCapacity is the node's memory in bytes.
func (r *Reporter) MemoryCapacity() int64 {
	if q, ok := r.cfg.Capacity[corev1.ResourceMemory]; ok {
		return q.Value()
	}
	return r.machine.Memory
}

// HostIPs are the node's internal addresses.
func (r *Reporter) HostIPs() []string { return slices.Clone(r.cfg.NodeIPs) }

// RuntimeName is the runtime's own name, which prefixes container ids.
func (r *Reporter) RuntimeName() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runtime
}

// NetworkReady is nil when the runtime says that its network works.
func (r *Reporter) NetworkReady() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.network
}

// Inspect asks the runtime for name, version and state.
func (r *Reporter) Inspect(ctx context.Context) (ready error, err error) {
	version, err := r.deps.CRI.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return nil, err
	}
	st, err := r.deps.CRI.RuntimeServiceClient.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return nil, err
	}
	var network error
	for _, c := range st.GetStatus().GetConditions() {
		if c.Status {
			continue
		}
		problem := fmt.Errorf("container runtime network not ready: %s=false reason:%s message:%s", c.Type, c.Reason, c.Message)
		switch c.Type {
		case runtimeapi.NetworkReady:
			network = problem
		case runtimeapi.RuntimeReady:
			ready = fmt.Errorf("container runtime not ready: %s=false reason:%s message:%s", c.Type, c.Reason, c.Message)
		}
	}
	r.mu.Lock()
	r.runtime, r.version, r.network = version.RuntimeName, version.RuntimeVersion, network
	r.mu.Unlock()
	return ready, nil
}

// Register makes the Node object, or takes over the one that is there: the well-known labels are brought up to date;
// other labels, taints and whether it is schedulable are left as they are.
func (r *Reporter) Register(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Name, Labels: r.labels(), Annotations: r.annotations()}, Spec: corev1.NodeSpec{Taints: r.cfg.Taints}}
	if len(r.cfg.PodCIDRs) > 0 && !r.cfg.PodCIDRsGiven {
		node.Spec.PodCIDR, node.Spec.PodCIDRs = r.cfg.PodCIDRs[0], r.cfg.PodCIDRs
	}
	node.Status = r.status(ctx, node, time.Now())
	made, err := r.deps.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	switch {
	case err == nil:
		r.keep(made)
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("register node %s: %w", r.cfg.Name, err)
	}
	have, err := r.deps.Client.CoreV1().Nodes().Get(ctx, r.cfg.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("register node %s: %w", r.cfg.Name, err)
	}
	want := have.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	for _, name := range wellKnownLabels {
		if value, ok := r.labels()[name]; ok {
			want.Labels[name] = value
		}
	}
	for name, value := range r.annotations() {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, name, value)
	}
	if want.Spec.PodCIDR == "" && len(r.cfg.PodCIDRs) > 0 && !r.cfg.PodCIDRsGiven {
		want.Spec.PodCIDR, want.Spec.PodCIDRs = r.cfg.PodCIDRs[0], r.cfg.PodCIDRs
	}
	if !equality.Semantic.DeepEqual(have, want) {
		if have, err = r.deps.Client.CoreV1().Nodes().Update(ctx, want, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("register node %s: %w", r.cfg.Name, err)
		}
	}
	r.keep(have)
	return r.report(ctx, true)
}

// wellKnownLabels say what a node is; an agent keeps them right. Others are written when the node is registered, and are
// the administrators' from then on.
var wellKnownLabels = []string{
	corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelArchStable, corev1.LabelOSStable, "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
}

func (r *Reporter) labels() map[string]string {
	l := map[string]string{
		corev1.LabelHostname: r.cfg.Hostname, corev1.LabelArchStable: r.machine.Info.Architecture, corev1.LabelOSStable: r.machine.Info.OperatingSystem,
		"beta.kubernetes.io/arch": r.machine.Info.Architecture, "beta.kubernetes.io/os": r.machine.Info.OperatingSystem,
	}
	maps.Copy(l, r.cfg.Labels)
	return l
}

func (r *Reporter) annotations() map[string]string {
	if r.cfg.LocalVolumes == "" {
		return nil
	}
	return map[string]string{localvolumes.Annotation: r.cfg.LocalVolumes}
}

func (r *Reporter) keep(node *corev1.Node) {
	node.ManagedFields = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.see(node)
	r.reported = time.Now()
}

// Round computes the status, writes it when it is not what the API has or when it is due, and answers when to do so
// again.
func (r *Reporter) Round(ctx context.Context) time.Duration {
	if err := r.report(ctx, false); err != nil && ctx.Err() == nil {
		r.deps.Logger.Error("could not write node status; trying again", "node", r.cfg.Name, "err", err)
	}
	return r.cfg.Update
}

func (r *Reporter) report(ctx context.Context, force bool) error {
	r.mu.Lock()
	have, reported := r.node, r.reported
	r.mu.Unlock()
	now := time.Now()
	want := have.DeepCopy()
	want.Status = r.status(ctx, have, now)
	due := force || now.Sub(reported) >= r.cfg.Report
	if !due && !changed(&have.Status, &want.Status) {
		return nil
	}
	fresh, err := r.deps.Client.CoreV1().Nodes().Get(ctx, r.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r.Register(ctx)
	}
	if err != nil {
		return fmt.Errorf("read node %s: %w", r.cfg.Name, err)
	}
	want = fresh.DeepCopy()
	want.Status = r.status(ctx, fresh, now)
	updated, _, err := nodeutil.PatchNodeStatus(r.deps.Client.CoreV1(), types.NodeName(r.cfg.Name), fresh, want)
	if err != nil {
		return fmt.Errorf("write status of node %s: %w", r.cfg.Name, err)
	}
	r.keep(updated)
	return nil
}

// changed compares all but heartbeat times.
func changed(a, b *corev1.NodeStatus) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	for _, s := range []*corev1.NodeStatus{x, y} {
		for i := range s.Conditions {
			s.Conditions[i].LastHeartbeatTime = metav1.Time{}
			s.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		// Who attaches volumes writes these.
		s.VolumesAttached, s.VolumesInUse = nil, nil
	}
	return !equality.Semantic.DeepEqual(x, y)
}

// status computes the whole status over what is there.
func (r *Reporter) status(ctx context.Context, node *corev1.Node, now time.Time) corev1.NodeStatus {
	s := *node.Status.DeepCopy()
	runtimeReady, err := r.Inspect(ctx)
	var disk int64
	if capacity, _, _, _, derr := Disk(r.cfg.RootDir); derr == nil {
		disk = capacity
	}
	s.Addresses = nil
	for _, ip := range r.cfg.NodeIPs {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: r.cfg.Hostname})
	s.Capacity = r.machine.capacity(s.Capacity, disk, r.cfg.Capacity)
	s.Allocatable = allocatable(s.Capacity, r.cfg.Reserved)
	if r.deps.Held != nil {
		s.Allocatable = without(s.Allocatable, r.deps.Held(s.Capacity))
	}
	s.NodeInfo = r.machine.Info
	s.NodeInfo.KubeletVersion = r.cfg.KubeletVersion
	r.mu.Lock()
	s.NodeInfo.ContainerRuntimeVersion = fmt.Sprintf("%s://%s", r.runtime, r.version)
	network := r.network
	r.mu.Unlock()
	s.DaemonEndpoints.KubeletEndpoint.Port = r.deps.Port()
	s.Images = images(r.deps.Images())

	problem := runtimeReady
	if err != nil {
		problem = fmt.Errorf("container runtime is down: %s", cri.Message(err))
	}
	if problem == nil {
		problem = network
	}
	if problem == nil && r.cfg.PodCIDRsGiven && !r.hasRange(node) {
		problem = fmt.Errorf("range of pod IPs %s is not this node's any more: its spec.podCIDRs is %v", strings.Join(r.cfg.PodCIDRs, ","), node.Spec.PodCIDRs)
	}
	if problem == nil {
		if seen, herr := r.deps.Healthy(now); herr != nil {
			problem = fmt.Errorf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v: %w", now.Sub(seen).Truncate(time.Second), 3*time.Minute, herr)
		}
	}
	set := func(t corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) (moved bool) {
		at := metav1.NewTime(now)
		for i := range s.Conditions {
			c := &s.Conditions[i]
			if c.Type != t {
				continue
			}
			if c.Status != status {
				c.LastTransitionTime, moved = at, true
			}
			c.Status, c.Reason, c.Message, c.LastHeartbeatTime = status, reason, message, at
			return moved
		}
		s.Conditions = append(s.Conditions, corev1.NodeCondition{Type: t, Status: status, Reason: reason, Message: message, LastHeartbeatTime: at, LastTransitionTime: at})
		return true
	}
	var has eviction.Pressures
	if r.deps.Pressures != nil {
		has = r.deps.Pressures()
	}
	for _, p := range []struct {
		condition corev1.NodeConditionType
		holds     bool
		// with and without it: reason, message, and the event when it comes and goes
		with, without [3]string
	}{
		{corev1.NodeMemoryPressure, has.Memory,
			[3]string{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
			[3]string{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"}},
		{corev1.NodeDiskPressure, has.Disk,
			[3]string{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
			[3]string{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"}},
		{corev1.NodePIDPressure, has.PID,
			[3]string{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
			[3]string{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"}},
	} {
		status, text := corev1.ConditionFalse, p.without
		if p.holds {
			status, text = corev1.ConditionTrue, p.with
		}
		first := !hasCondition(node, p.condition)
		if set(p.condition, status, text[0], text[1]) && (!first || p.holds) && !r.cfg.Simulated {
			r.pressure(p.condition, p.holds, text[2])
		}
	}
	if problem == nil {
		set(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
	} else {
		set(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", problem.Error())
	}
	r.announce(problem == nil)
	return s
}

func hasCondition(node *corev1.Node, t corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == t })
}

// pressure records the event of a pressure that came or went, once.
func (r *Reporter) pressure(t corev1.NodeConditionType, holds bool, reason string) {
	r.mu.Lock()
	news := r.told[t] != holds
	if r.told == nil {
		r.told = map[corev1.NodeConditionType]bool{}
	}
	r.told[t] = holds
	r.mu.Unlock()
	if news {
		r.Event(corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.cfg.Name, reason))
	}
}

// announce records the event of a node that became ready or stopped being so.
func (r *Reporter) announce(ready bool) {
	r.mu.Lock()
	news := !r.readySeen || r.ready != ready
	first := !r.readySeen
	r.readySeen, r.ready = true, ready
	r.mu.Unlock()
	if !news || (first && !ready) {
		return
	}
	reason := "NodeReady"
	if !ready {
		reason = "NodeNotReady"
	}
	r.Event(corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", r.cfg.Name, reason))
}

// Event records an event on the Node.
func (r *Reporter) Event(eventType, reason, message string) {
	r.deps.Events.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.cfg.Name, UID: types.UID(r.cfg.Name)}, eventType, reason, message)
}

func images(list []*runtimeapi.Image) []corev1.ContainerImage {
	var out []corev1.ContainerImage
	for _, img := range list {
		if len(out) == maxImages {
			break
		}
		names := append(append([]string{}, img.RepoDigests...), img.RepoTags...)
		if len(names) == 0 {
			continue
		}
		out = append(out, corev1.ContainerImage{Names: names, SizeBytes: int64(img.Size)})
	}
	return out
}
