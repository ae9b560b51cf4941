package pod

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/container"
	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
)

// groups notes when the pod's cgroup is written.
type groups struct {
	Cgroups
	write func()
}

func (g groups) Resize(*corev1.Pod) error { g.write(); return nil }

type plainNode struct{ Node }

func (plainNode) MemoryCapacity() int64 { return 1 << 40 }
func (plainNode) HostIPs() []string     { return nil }

// TestResizeOrder: a pod's cgroup never holds less than its containers, and nothing is changed where what is in use does
// not fit. Sizes are written cpu/memory, in CPUs and Mi.
func TestResizeOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		from    []string
		to      []string
		used    []uint64 // Mi
		restart bool     // memory of the first container
		want    string
		err     string
	}{
		{name: "grow", from: []string{"1/100"}, to: []string{"2/200"}, want: "pod a=2/200"},
		{name: "shrink", from: []string{"2/200"}, to: []string{"1/100"}, want: "a=1/100 pod"},
		{name: "less memory only", from: []string{"1/200"}, to: []string{"1/100"}, want: "a=1/100 pod"},
		{name: "less CPU only", from: []string{"2/100"}, to: []string{"1/100"}, want: "a=1/100 pod"},
		{name: "more CPU, less memory", from: []string{"1/200"}, to: []string{"2/100"}, want: "a=1/100 pod a=2/100"},
		{name: "less CPU, more memory", from: []string{"2/100"}, to: []string{"1/200"}, want: "a=1/100 pod a=1/200"},
		{name: "one grows, one shrinks", from: []string{"1/100", "2/200"}, to: []string{"2/200", "1/100"}, want: "b=1/100 pod a=2/200"},
		{name: "in use", from: []string{"1/200"}, to: []string{"1/100"}, used: []uint64{150}, err: `attempting to set container "a" memory limit (104857600) below current usage (157286400)`},
		{name: "in use, the other changes nothing either", from: []string{"2/200", "1/200"}, to: []string{"1/200", "1/100"}, used: []uint64{10, 150}, err: `container "b"`},
		{name: "begins anew with less", from: []string{"1/200"}, to: []string{"1/100"}, used: []uint64{150}, restart: true, want: "stop a pod"},
		{name: "begins anew with more", from: []string{"1/100"}, to: []string{"1/200"}, restart: true, want: "pod"},
		{name: "the pod is full though one begins anew", from: []string{"1/400", "1/100"}, to: []string{"1/50", "1/100"}, used: []uint64{390, 160}, restart: true, err: "pod memory limit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := critest.New(t)
			client, err := cri.Dial(r.Endpoint, "n")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var did []string
			size := func(cpu, memory int64) string { return fmt.Sprintf("%d/%d", cpu/100000, memory>>20) }
			r.OnUpdate = func(ct *critest.Container, l *runtimeapi.LinuxContainerResources) error {
				did = append(did, ct.Config.Metadata.Name+"="+size(l.CpuQuota, l.MemoryLimitInBytes))
				return nil
			}
			r.OnStop = func(ct *critest.Container, _ int64) { did = append(did, "stop "+ct.Config.Metadata.Name) }
			pod, rt := &corev1.Pod{}, &cri.PodStatus{}
			pod.UID = "u"
			for i := range c.to {
				name := string(rune('a' + i))
				spec := corev1.Container{Name: name, Resources: sized(t, c.from[i])}
				old := container.Resources(pod, &spec, 0)
				spec.Resources = sized(t, c.to[i])
				if c.restart && i == 0 {
					spec.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
				}
				pod.Spec.Containers = append(pod.Spec.Containers, spec)
				ct := &critest.Container{ID: name, Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name}}, Status: &runtimeapi.ContainerStatus{}}
				if i < len(c.used) {
					ct.Memory = c.used[i] << 20
				}
				r.Containers[name] = ct
				rt.Containers = append(rt.Containers, &cri.Container{ID: name, Name: name, State: runtimeapi.ContainerState_CONTAINER_RUNNING, Resources: &runtimeapi.ContainerResources{Linux: old}})
			}
			m := New(Config{}, Deps{CRI: client, Node: plainNode{}, Events: record.NewFakeRecorder(100), Logger: slog.New(slog.DiscardHandler), Cgroups: groups{write: func() { did = append(did, "pod") }}})
			defer m.Close()
			e := &entry{sizes: sizes{progress: &corev1.PodCondition{}}}
			var todo actions
			err = m.resize(t.Context(), e, pod, rt, &todo)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if got := strings.Join(did, " "); got != c.want {
				t.Errorf("did %q, want %q", got, c.want)
			}
			if c.restart != slices.ContainsFunc(todo.main, func(x *corev1.Container) bool { return x.Name == "a" }) && c.err == "" {
				t.Errorf("started anew: %v", todo.main)
			}
		})
	}
}

func sized(t *testing.T, s string) corev1.ResourceRequirements {
	t.Helper()
	cpu, memory, _ := strings.Cut(s, "/")
	l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory + "Mi")}
	return corev1.ResourceRequirements{Requests: l, Limits: l}
}

// TestResizeRefused: what the node can never give is Infeasible, what others have now Deferred.
func TestResizeRefused(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: sized(t, "4/1000").Limits}}
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("10")
	pod := func(uid types.UID, size string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: sized(t, size)}}}}
		p.UID = uid
		return p
	}
	for size, want := range map[string]string{"1/100": "", "3/100": corev1.PodReasonDeferred, "1/900": corev1.PodReasonDeferred, "5/100": corev1.PodReasonInfeasible, "1/1001": corev1.PodReasonInfeasible} {
		a := admission{admitted: map[types.UID]*corev1.Pod{"other": pod("other", "2/500")}}
		got := ""
		if e := a.resize(pod("u", size), node); e != nil {
			got = e.reason
		}
		if got != want {
			t.Errorf("%s: %q, want %q", size, got, want)
		}
	}
}
