package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// shape is what plugins may know of a pod but for its name, UID and node (which a
// pod with ephemeral volumes has in it): pods of one shape are one class. Its message is shared by all of them and never
// changed. The key is a digest of the message's deterministic encoding.
type shape struct {
	key  [sha256.Size]byte
	size int // bytes of the message
	pod  *contractv1.Pod
	// placedCPU and placedMemory are NonZeroMilliCpu and NonZeroMemory of the pod
	// when it is placed; mostly those of its message.
	placedCPU, placedMemory int64
	// claims: a volume stands for a claim.
	claims bool

	entrance entrance // what plugins said at the queue's entrance; owned by the cycle

	refs  int    // pods in the scheduler that have it; owned by the cycle
	class *class // cached results, or nil; owned by the cycle
}

// tokenVolume begins the random name of the volume that admission adds for the
// service account token.
const tokenVolume = "kube-api-access-"

// newShape converts a pod.
func newShape(pod *v1.Pod) (*shape, error) {
	message := convertPod(pod)
	asking, placed := scoredRequests(pod)
	message.NonZeroMilliCpu, message.NonZeroMemory = milli(asking.Cpu()), amount(asking.Memory())
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("convert pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s := &shape{pod: message, size: len(encoded), claims: usesClaims(message), placedCPU: milli(placed.Cpu()), placedMemory: amount(placed.Memory())}
	if s.placedApart() {
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(s.placedCPU))
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(s.placedMemory))
	}
	s.key = sha256.Sum256(encoded)
	return s, nil
}

// placedApart reports whether the pod is another for scores when it is placed.
func (s *shape) placedApart() bool {
	return s.placedCPU != s.pod.NonZeroMilliCpu || s.placedMemory != s.pod.NonZeroMemory
}

// occupant is the message for a pod of the shape that occupies a node; without
// one, for a pod that waits.
func (s *shape) occupant(name, uid, node string) *contractv1.Pod {
	p := s.pod
	nonZeroCPU, nonZeroMemory := p.NonZeroMilliCpu, p.NonZeroMemory
	if node != "" {
		nonZeroCPU, nonZeroMemory = s.placedCPU, s.placedMemory
	}
	return &contractv1.Pod{
		Namespace: p.Namespace, Name: name, Uid: uid, NodeName: node,
		Labels: p.Labels, Annotations: p.Annotations, SchedulerName: p.SchedulerName, Priority: p.Priority,
		NodeSelector: p.NodeSelector, NodeAffinity: p.NodeAffinity, Tolerations: p.Tolerations,
		Containers: p.Containers, InitContainers: p.InitContainers, HostPorts: p.HostPorts, Volumes: p.Volumes,
		Requests: p.Requests, NonZeroMilliCpu: nonZeroCPU, NonZeroMemory: nonZeroMemory,
		Owners: p.Owners, Terminating: p.Terminating,
		PodAffinity: p.PodAffinity, PodAntiAffinity: p.PodAntiAffinity, TopologySpread: p.TopologySpread,
		SchedulingGates: p.SchedulingGates, PreemptionPolicy: p.PreemptionPolicy, ResourceClaims: p.ResourceClaims,
	}
}

// convertPod leaves out NonZero*, which newShape fills in.
func convertPod(pod *v1.Pod) *contractv1.Pod {
	requests := podRequests(pod, nil, true)
	out := &contractv1.Pod{
		Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations,
		SchedulerName: pod.Spec.SchedulerName,
		NodeSelector:  pod.Spec.NodeSelector,
		Requests:      convertResources(requests),
		Terminating:   pod.DeletionTimestamp != nil,
	}
	if pod.Spec.Priority != nil {
		out.Priority = *pod.Spec.Priority
	}
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		out.NodeAffinity = convertAffinity(affinity.NodeAffinity)
	}
	convertPlacement(out, pod)
	for i := range pod.Spec.SchedulingGates {
		out.SchedulingGates = append(out.SchedulingGates, pod.Spec.SchedulingGates[i].Name)
	}
	if policy := pod.Spec.PreemptionPolicy; policy != nil {
		out.PreemptionPolicy = string(*policy)
	}
	for i := range pod.Spec.ResourceClaims {
		out.ResourceClaims = append(out.ResourceClaims, pod.Spec.ResourceClaims[i].Name)
	}
	for i := range pod.Spec.Tolerations {
		t := &pod.Spec.Tolerations[i]
		out.Tolerations = append(out.Tolerations, &contractv1.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: string(t.Effect)})
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		out.Containers = append(out.Containers, &contractv1.Container{Name: c.Name, Image: c.Image})
		out.HostPorts = appendHostPorts(out.HostPorts, c.Ports)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		out.InitContainers = append(out.InitContainers, &contractv1.Container{Name: c.Name, Image: c.Image})
		// Only an init container that keeps running holds on to its ports.
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			out.HostPorts = appendHostPorts(out.HostPorts, c.Ports)
		}
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if strings.HasPrefix(volume.Name, tokenVolume) {
			continue
		}
		v := convertVolume(volume, pod.Namespace, pod.Name)
		if v.Type == ephemeralVolume {
			// The claim has to be the pod's own, so no other is of its shape.
			out.Name, out.Uid = pod.Name, string(pod.UID)
		}
		out.Volumes = append(out.Volumes, v)
	}
	for i := range pod.OwnerReferences {
		o := &pod.OwnerReferences[i]
		out.Owners = append(out.Owners, &contractv1.OwnerReference{
			ApiVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Uid: string(o.UID),
			Controller: o.Controller != nil && *o.Controller,
		})
	}
	return out
}

func appendHostPorts(list []*contractv1.HostPort, ports []v1.ContainerPort) []*contractv1.HostPort {
	for i := range ports {
		if p := &ports[i]; p.HostPort > 0 {
			list = append(list, &contractv1.HostPort{Port: p.HostPort, Protocol: string(p.Protocol), HostIp: p.HostIP})
		}
	}
	return list
}

func convertResources(list v1.ResourceList) *contractv1.Resources {
	out := &contractv1.Resources{}
	for name, quantity := range list {
		switch name {
		case v1.ResourceCPU:
			out.MilliCpu = milli(&quantity)
		case v1.ResourceMemory:
			out.Memory = amount(&quantity)
		case v1.ResourceEphemeralStorage:
			out.EphemeralStorage = amount(&quantity)
		case v1.ResourcePods:
			out.Pods = amount(&quantity)
		default:
			if out.Scalar == nil {
				out.Scalar = map[string]int64{}
			}
			out.Scalar[string(name)] = amount(&quantity)
		}
	}
	return out
}

func convertAffinity(affinity *v1.NodeAffinity) *contractv1.NodeAffinity {
	out := &contractv1.NodeAffinity{}
	if required := affinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		out.HasRequired = true
		out.Required = convertTerms(required.NodeSelectorTerms)
	}
	for i := range affinity.PreferredDuringSchedulingIgnoredDuringExecution {
		p := &affinity.PreferredDuringSchedulingIgnoredDuringExecution[i]
		out.Preferred = append(out.Preferred, &contractv1.PreferredTerm{Weight: p.Weight, Term: convertTerm(&p.Preference)})
	}
	return out
}

func convertTerms(terms []v1.NodeSelectorTerm) []*contractv1.NodeSelectorTerm {
	var out []*contractv1.NodeSelectorTerm
	for i := range terms {
		out = append(out, convertTerm(&terms[i]))
	}
	return out
}

func convertTerm(term *v1.NodeSelectorTerm) *contractv1.NodeSelectorTerm {
	out := &contractv1.NodeSelectorTerm{}
	for _, r := range term.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, &contractv1.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	for _, r := range term.MatchFields {
		out.MatchFields = append(out.MatchFields, &contractv1.Requirement{Key: r.Key, Operator: string(r.Operator), Values: r.Values})
	}
	return out
}

// convertNode keeps what plugins see. Conditions are no part of it, so that a
// heartbeat changes nothing.
func convertNode(node *v1.Node) *contractv1.Node {
	out := &contractv1.Node{
		Name: node.Name, Uid: string(node.UID), Labels: node.Labels, Annotations: node.Annotations,
		Unschedulable: node.Spec.Unschedulable,
		Capacity:      convertResources(node.Status.Capacity),
		Allocatable:   convertResources(node.Status.Allocatable),
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		out.Taints = append(out.Taints, &contractv1.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	for i := range node.Status.Images {
		out.Images = append(out.Images, &contractv1.Image{Names: node.Status.Images[i].Names, SizeBytes: node.Status.Images[i].SizeBytes})
	}
	return out
}
