package placements

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/scheduler/explain"
)

// What the default provider's predicates (SCH-13) and priorities (SCH-15) decide
// together, pod after pod, as built modules under the real scheduler.
func TestDefaultProvider(t *testing.T) {
	provider := plugin.Profile{SchedulerName: profile.SchedulerName, Predicates: profile.Predicates, Priorities: profile.Priorities[:4]}
	term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"ssd"}}}}
	weak := &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1, Preference: term}}}}
	strong := &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}}
	disk := []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}}}
	node := func(name, cpu, disk string) v1.Node {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{"disk": disk}}}
		n.Status.Capacity = quantities("cpu", cpu, "memory", "8Gi", "pods", 110)
		n.Status.Allocatable = n.Status.Capacity
		return n
	}
	// Pods are tried in this order; each asks for one processor.
	pod := func(change func(*v1.Pod)) v1.Pod {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: v1.PodSpec{
			SchedulerName: provider.SchedulerName,
			Containers:    []v1.Container{{Name: "c", Image: "i", Resources: v1.ResourceRequirements{Requests: quantities("cpu", 1, "memory", "1Gi")}}},
		}}
		change(&p)
		return p
	}
	affine := func(a *v1.Affinity) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Affinity = a } }
	mount := func(p *v1.Pod) { p.Spec.Volumes = disk }
	serve := func(p *v1.Pod) { p.Labels = map[string]string{"app": "app-0"} }
	directory := build(t)
	for _, c := range []struct {
		name  string
		nodes []v1.Node
		pods  []func(*v1.Pod)
		want  []string // a node, or why none
	}{
		{"PRI-1: the least loaded node", []v1.Node{node("a", "8", ""), node("b", "4", "")}, []func(*v1.Pod){affine(nil)}, []string{"a"}},
		{"PRI-23, PRI-28: a weak rule prefers", []v1.Node{node("a", "8", ""), node("b", "7", "ssd")}, []func(*v1.Pod){affine(weak)}, []string{"b"}},
		{"PRI-25: a node that fails a weak rule is still chosen", []v1.Node{node("a", "8", ""), node("b", "500m", "ssd")}, []func(*v1.Pod){affine(weak)}, []string{"a"}},
		{"PRI-24: one that fails a strong rule never is", []v1.Node{node("a", "8", ""), node("b", "500m", "ssd")}, []func(*v1.Pod){affine(strong)},
			[]string{"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."}},
		{"PRD-18: a disk in use on one node is free on another", []v1.Node{node("a", "8", ""), node("b", "2", "")}, []func(*v1.Pod){mount, mount, mount},
			[]string{"a", "b", "0/2 nodes are available: 2 node(s) had no available disk."}},
		{"PRI-10, PRI-18: pods of a service spread, though one node has more room", []v1.Node{node("a", "8", ""), node("b", "7", "")},
			[]func(*v1.Pod){serve, serve}, []string{"a", "b"}},
		{"PRD-12: the last of the room is taken", []v1.Node{node("a", "2", "")}, []func(*v1.Pod){affine(nil), affine(nil), affine(nil)},
			[]string{"a", "a", "0/1 nodes are available: 1 Insufficient cpu."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := generate(1, 0, 0)
			cluster.nodes.Items = c.nodes
			for i, change := range c.pods {
				p := pod(change)
				order := int32(len(c.pods) - i)
				p.Name, p.UID, p.Spec.Priority = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("p", i)), &order
				cluster.pods.Items = append(cluster.pods.Items, p)
			}
			s := start(t, directory, manifest.TransportWASM, provider, fixed{&cluster.pods}, fixed{&cluster.nodes}, cluster.objects())
			defer s.stop()
			for i, want := range c.want {
				var d explain.Decision
				for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
					var ok bool
					if d, ok = s.Explain("a", fmt.Sprint("pod-", i)); ok {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("no decision about pod %d", i)
					}
				}
				if got := d.Node + d.Message; got != want {
					t.Errorf("pod %d: %q, want %q", i, got, want)
				}
				if d.Node != "" && d.Total > 40 {
					t.Errorf("pod %d: total %d, want 0 to 40 (SCH-19)", i, d.Total)
				}
			}
		})
	}
}
