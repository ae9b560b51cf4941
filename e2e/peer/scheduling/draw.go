package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// draw draws one cluster.
type draw struct {
	*rand.Rand
	c *cluster
	// started is the next pod's start: no two pods have the same.
	started int
}

// family draws the clusters about one plugin.
type family struct {
	name string
	draw func(*draw)
	// part is how many of a hundred clusters are of the family.
	part int
}

// asked is how many pods a cluster asks about.
const asked = 8

var families = []family{
	{"NodeUnschedulable", unschedulable, 3},
	{"TaintToleration", taints, 7},
	{"NodeAffinity", nodeAffinity, 8},
	{"NodePorts", hostPorts, 4},
	{"NodeResourcesFit", resources, 10},
	{"NodeResourcesBalancedAllocation", balanced, 5},
	{"ImageLocality", images, 4},
	{"InterPodAffinity", podAffinity, 12},
	{"PodTopologySpread", spread, 13},
	{"VolumeRestrictions", restrictions, 4},
	{"NodeVolumeLimits", limits, 5},
	{"VolumeZone", volumeZones, 4},
	{"VolumeBinding", binding, 7},
	{"Mixed", mixed, 8},
	{"Preemption", preempting, 6},
}

// drawCluster draws number n of a family. The family's name and the number are part
// of the seed, so that others may be added and taken away.
func drawCluster(f family, seed uint64, n int) *cluster {
	h := fnv.New64a()
	fmt.Fprint(h, f.name, n)
	d := &draw{Rand: rand.New(rand.NewPCG(seed, h.Sum64())), c: &cluster{ID: fmt.Sprintf("%s/%d", f.name, n), Family: f.name}}
	f.draw(d)
	return d.c
}

func (d *draw) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d *draw, list ...T) T { return list[d.IntN(len(list))] }

// some draws up to n of a list, in its order.
func some[T any](d *draw, n int, list ...T) []T {
	var out []T
	for i, v := range list {
		if len(out) < n && d.IntN(len(list)-i) < n-len(out) {
			out = append(out, v)
		}
	}
	return out
}

const (
	hostname = v1.LabelHostname
	zone     = v1.LabelTopologyZone
	region   = v1.LabelTopologyRegion
	oldZone  = v1.LabelFailureDomainBetaZone
)

func quantity(s string, args ...any) resource.Quantity {
	return resource.MustParse(fmt.Sprintf(s, args...))
}

// nodes draws between least and most nodes with names, labels and room.
func (d *draw) nodes(least, most int) {
	zones, regions := 1+d.IntN(4), 1+d.IntN(2)
	for i := range least + d.IntN(most-least+1) {
		name := fmt.Sprintf("node-%02d", i)
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{hostname: name}}}
		if d.chance(85) {
			z := d.IntN(zones)
			n.Labels[zone] = fmt.Sprintf("zone-%d", z)
			n.Labels[region] = fmt.Sprintf("region-%d", z%regions)
		}
		if d.chance(70) {
			n.Labels["disk"] = pick(d, "ssd", "hdd", "nvme")
		}
		if d.chance(60) {
			n.Labels["cores"] = fmt.Sprint(1 << d.IntN(6))
		}
		if d.chance(30) {
			n.Labels["rack"] = fmt.Sprintf("rack-%d", d.IntN(3))
		}
		n.Status.Capacity = v1.ResourceList{
			v1.ResourceCPU: quantity("%d", 2+d.IntN(15)), v1.ResourceMemory: quantity("%dGi", 4+d.IntN(30)),
			v1.ResourcePods: quantity("%d", 10+d.IntN(100)), v1.ResourceEphemeralStorage: quantity("%dGi", 20+d.IntN(80)),
		}
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
		d.c.Nodes = append(d.c.Nodes, n)
	}
}

// pod draws a pod with the given name, in one of three namespaces, with labels and
// requests.
func (d *draw) pod(name string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pick(d, "blue", "green", "red"), Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "c0", Image: "registry.example/app:v1"}}},
	}
	if d.chance(90) {
		p.Labels["app"] = pick(d, "web", "db", "cache")
	}
	if d.chance(50) {
		p.Labels["tier"] = pick(d, "front", "back")
	}
	if d.chance(30) {
		p.Labels["version"] = pick(d, "1", "2")
	}
	if d.chance(70) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{
			v1.ResourceCPU: quantity("%dm", 50*(1+d.IntN(20))), v1.ResourceMemory: quantity("%dMi", 64*(1+d.IntN(20))),
		}
	}
	return p
}

// occupy draws up to most pods on each node; change makes them what the family is
// about.
func (d *draw) occupy(most int, change func(*v1.Pod)) {
	for _, n := range d.c.Nodes {
		for range d.IntN(most + 1) {
			p := d.pod(fmt.Sprintf("there-%03d", len(d.c.Pods)))
			p.Spec.NodeName = n.Name
			p.Status.Phase = v1.PodRunning
			d.started++
			p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 1, 2, 3, 0, d.started, 0, time.UTC)}
			if d.chance(4) {
				at := metav1.NewTime(time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC))
				p.DeletionTimestamp, p.Finalizers = &at, []string{"example.com/wait"}
			}
			if change != nil {
				change(p)
			}
			d.c.Pods = append(d.c.Pods, p)
		}
	}
}

// ask draws the pods that are asked about.
func (d *draw) ask(change func(*v1.Pod)) {
	for i := range asked {
		p := d.pod(fmt.Sprintf("asked-%d", i))
		p.Status.Phase = v1.PodPending
		change(p)
		d.c.Ask = append(d.c.Ask, p)
	}
}

// add adds an object with its kind.
func (d *draw) add(o runtime.Object) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		panic(err)
	}
	o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind(kinds[0]))
	d.c.Objects = append(d.c.Objects, o)
}

// configure sets a plugin's arguments.
func (d *draw) configure(plugin string, args map[string]any) {
	args["apiVersion"], args["kind"] = "kubescheduler.config.k8s.io/v1", plugin+"Args"
	data, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	d.c.Config = append(d.c.Config, pluginConfig{plugin, data})
}

// namespaces adds those that pods are in, with labels.
func (d *draw) namespaces() {
	for _, name := range []string{"blue", "green", "red"} {
		labels := map[string]string{v1.LabelMetadataName: name}
		if d.chance(70) {
			labels["team"] = pick(d, "one", "two")
		}
		d.add(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-ns-" + name), Labels: labels}})
	}
}

// selector draws a selector over the labels of pods; now and then nil (nothing) or empty
// (everything).
func (d *draw) selector() *metav1.LabelSelector {
	if d.chance(3) {
		return nil
	}
	s := &metav1.LabelSelector{}
	if d.chance(80) {
		s.MatchLabels = map[string]string{"app": pick(d, "web", "db", "cache")}
	}
	if d.chance(25) {
		r := metav1.LabelSelectorRequirement{Key: pick(d, "tier", "version", "app"), Operator: pick(d,
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = some(d, 2, "front", "back", "1", "2", "web", "db")
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}
