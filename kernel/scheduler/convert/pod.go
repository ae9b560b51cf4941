package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Pod is what plugins may know of a pod except its name, UID and node. Pods with equal
// keys are alike to plugins. A pod with ephemeral volumes has its name and UID in it,
// so that no other pod is like it. A Pod is never changed.
type Pod struct {
	Key     [sha256.Size]byte // digest of the deterministic encoding of the message
	Size    int               // bytes of the encoding
	Message *contractv1.Pod
	// Claims: a volume stands for a claim.
	Claims bool
	// placedCPU and placedMemory are NonZeroMilliCpu and NonZeroMemory of the pod
	// when it is placed; mostly those of its message.
	placedCPU, placedMemory int64
}

// tokenVolume begins the random name of the volume that admission adds for the
// service account token.
const tokenVolume = "kube-api-access-"

// NewPod converts a pod.
func NewPod(pod *v1.Pod) (*Pod, error) {
	message := convertPod(pod)
	asking, placed := scoredRequests(pod)
	message.NonZeroMilliCpu, message.NonZeroMemory = milli(asking.Cpu()), amount(asking.Memory())
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("convert pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s := &Pod{Message: message, Size: len(encoded), Claims: UsesClaims(message), placedCPU: milli(placed.Cpu()), placedMemory: amount(placed.Memory())}
	if s.PlacedApart() {
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(s.placedCPU))
		encoded = binary.LittleEndian.AppendUint64(encoded, uint64(s.placedMemory))
	}
	s.Key = sha256.Sum256(encoded)
	return s, nil
}

// PlacedApart reports whether the pod is another for scores when it is placed.
func (p *Pod) PlacedApart() bool {
	return p.placedCPU != p.Message.NonZeroMilliCpu || p.placedMemory != p.Message.NonZeroMemory
}

// Occupant is the message for a pod like it that occupies a node; without
// one, for a pod that waits.
func (p *Pod) Occupant(name, uid, node string) *contractv1.Pod {
	m := p.Message
	nonZeroCPU, nonZeroMemory := m.NonZeroMilliCpu, m.NonZeroMemory
	if node != "" {
		nonZeroCPU, nonZeroMemory = p.placedCPU, p.placedMemory
	}
	return &contractv1.Pod{
		Namespace: m.Namespace, Name: name, Uid: uid, NodeName: node,
		Labels: m.Labels, Annotations: m.Annotations, SchedulerName: m.SchedulerName, Priority: m.Priority,
		NodeSelector: m.NodeSelector, NodeAffinity: m.NodeAffinity, Tolerations: m.Tolerations,
		Containers: m.Containers, InitContainers: m.InitContainers, HostPorts: m.HostPorts, Volumes: m.Volumes,
		Requests: m.Requests, NonZeroMilliCpu: nonZeroCPU, NonZeroMemory: nonZeroMemory,
		Owners: m.Owners, Terminating: m.Terminating,
		PodAffinity: m.PodAffinity, PodAntiAffinity: m.PodAntiAffinity, TopologySpread: m.TopologySpread,
		SchedulingGates: m.SchedulingGates, PreemptionPolicy: m.PreemptionPolicy, ResourceClaims: m.ResourceClaims,
	}
}

// convertPod leaves out NonZero*, which newShape fills in.
// UsesClaims reports whether a volume of the pod stands for a claim.
func UsesClaims(pod *contractv1.Pod) bool {
	return slices.ContainsFunc(pod.Volumes, func(v *contractv1.Volume) bool {
		return v.Type == "persistentVolumeClaim" || v.Type == ephemeralVolume
	})
}

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

// Node keeps what plugins see. Conditions are no part of it, so that a
// heartbeat changes nothing.
func Node(node *v1.Node) *contractv1.Node {
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
