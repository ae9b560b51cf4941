package peer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"

	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/scheduler/explain"
)

// readable are the kinds of objects that the modern set reads.
var readable = []string{
	"Service", "ReplicationController", "ReplicaSet", "StatefulSet", "PersistentVolume", "PersistentVolumeClaim", "Namespace",
	"PodDisruptionBudget", "StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment",
}

// living is a cluster that changes under a scheduler.
type living struct {
	t       *testing.T
	random  *rand.Rand
	sources map[string]*fcache.FakeControllerSource // by kind
	nodes   map[string]*v1.Node
	pods    map[string]*v1.Pod
	objects map[string]runtime.Object // by kind, namespace and name
	gone    map[string]runtime.Object // objects that may come back
	asked   []*v1.Pod
	serial  int
}

func newLiving(t *testing.T, c *cluster, seed uint64) *living {
	l := &living{
		t: t, random: rand.New(rand.NewPCG(seed, 9)), sources: map[string]*fcache.FakeControllerSource{},
		nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, objects: map[string]runtime.Object{}, gone: map[string]runtime.Object{},
	}
	for _, kind := range append([]string{"Node", "Pod"}, readable...) {
		l.sources[kind] = fcache.NewFakeControllerSource()
		t.Cleanup(l.sources[kind].Shutdown)
	}
	picture := c.picture(t)
	// Where nodes disagree about the size of an image, that of the first counts; but
	// which comes first is left open here.
	sizes := map[string]int64{}
	for _, n := range picture.Nodes {
		for i := range n.Status.Images {
			image := &n.Status.Images[i]
			if sizes[image.Names[0]] == 0 {
				sizes[image.Names[0]] = image.SizeBytes
			}
			image.SizeBytes = sizes[image.Names[0]]
		}
		l.nodes[n.Name] = n
		l.sources["Node"].Add(n)
	}
	for _, p := range picture.Pods {
		l.pods[p.Name] = p
		l.sources["Pod"].Add(p)
	}
	for _, o := range picture.Objects {
		l.objects[key(o)] = o
		l.sources[o.GetObjectKind().GroupVersionKind().Kind].Add(o)
	}
	for _, p := range c.Ask {
		p = p.DeepCopy()
		// It waits for ever, so that it can be asked about again and again.
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/for-ever"}}
		p.Status = v1.PodStatus{}
		l.asked = append(l.asked, p)
		l.sources["Pod"].Add(p)
	}
	return l
}

func key(o runtime.Object) string {
	m, err := meta.Accessor(o)
	if err != nil {
		panic(err)
	}
	return o.GetObjectKind().GroupVersionKind().Kind + " " + m.GetNamespace() + "/" + m.GetName()
}

func anyOf[V any](l *living, m map[string]V) string {
	keys := slices.Sorted(maps.Keys(m))
	return keys[l.random.IntN(len(keys))]
}

// change does something to the cluster.
func (l *living) change() {
	switch k := l.random.IntN(20); {
	case k < 6 && len(l.pods) > 0: // a pod like another comes
		p := l.pods[anyOf(l, l.pods)].DeepCopy()
		l.serial++
		p.Name = fmt.Sprint("new-", l.serial)
		p.UID, p.Spec.NodeName = types.UID("uid-"+p.Name), anyOf(l, l.nodes)
		l.pods[p.Name] = p
		l.sources["Pod"].Add(p)
	case k < 7: // one like those that are asked about
		p := l.asked[l.random.IntN(len(l.asked))].DeepCopy()
		l.serial++
		p.Name, p.Spec.SchedulingGates = fmt.Sprint("new-", l.serial), nil
		p.UID, p.Spec.NodeName = types.UID("uid-"+p.Name), anyOf(l, l.nodes)
		l.pods[p.Name] = p
		l.sources["Pod"].Add(p)
	case k < 11 && len(l.pods) > 1:
		name := anyOf(l, l.pods)
		l.sources["Pod"].Delete(l.pods[name])
		delete(l.pods, name)
	case k < 13 && len(l.pods) > 0: // labels of a pod that runs
		p := l.pods[anyOf(l, l.pods)].DeepCopy()
		p.Labels = map[string]string{"app": []string{"web", "db", "cache"}[l.random.IntN(3)], "version": fmt.Sprint(1 + l.random.IntN(2))}
		l.pods[p.Name] = p
		l.sources["Pod"].Modify(p)
	case k < 16: // a node changes: it looks like another, is closed, has more or less room
		n := l.nodes[anyOf(l, l.nodes)].DeepCopy()
		other := l.nodes[anyOf(l, l.nodes)]
		switch l.random.IntN(4) {
		case 0:
			for _, label := range []string{v1.LabelTopologyZone, v1.LabelTopologyRegion, "disk", "rack"} {
				if delete(n.Labels, label); other.Labels[label] != "" {
					n.Labels[label] = other.Labels[label]
				}
			}
		case 1:
			n.Spec.Unschedulable = !n.Spec.Unschedulable
		case 2:
			n.Spec.Taints = other.Spec.Taints
		default:
			n.Status.Allocatable[v1.ResourceCPU] = *resource.NewQuantity(int64(1+l.random.IntN(16)), resource.DecimalSI)
		}
		l.nodes[n.Name] = n
		l.sources["Node"].Modify(n)
	case k < 17 && len(l.nodes) > 3: // a node goes; its pods stay, as they do for a while
		name := anyOf(l, l.nodes)
		l.sources["Node"].Delete(l.nodes[name])
		delete(l.nodes, name)
	case k < 18:
		n := l.nodes[anyOf(l, l.nodes)].DeepCopy()
		l.serial++
		n.Name = fmt.Sprint("new-", l.serial)
		n.UID, n.Labels[v1.LabelHostname] = types.UID("uid-"+n.Name), n.Name
		l.nodes[n.Name] = n
		l.sources["Node"].Add(n)
	case k < 19 && len(l.objects) > 0:
		name := anyOf(l, l.objects)
		o := l.objects[name]
		l.sources[o.GetObjectKind().GroupVersionKind().Kind].Delete(o)
		l.gone[name] = o
		delete(l.objects, name)
	case len(l.gone) > 0:
		name := anyOf(l, l.gone)
		o := l.gone[name]
		l.sources[o.GetObjectKind().GroupVersionKind().Kind].Add(o)
		l.objects[name] = o
		delete(l.gone, name)
	}
}

// picture is the cluster as it is now.
func (l *living) picture() *scheduler.Cluster {
	return &scheduler.Cluster{
		Nodes: slices.Collect(maps.Values(l.nodes)), Pods: slices.Collect(maps.Values(l.pods)), Objects: slices.Collect(maps.Values(l.objects)),
	}
}

// swappable is a source of policies that can go over from one host to another.
type swappable struct {
	current scheduler.PolicySource
	mu      sync.Mutex
	changed chan struct{}
}

func (s *swappable) Policy() scheduler.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.Policy()
}

func (s *swappable) Changed() <-chan struct{} { return s.changed }

func (s *swappable) swap(to scheduler.PolicySource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = to
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// told is what an explanation says of the nodes. The message of a pod that waits is
// about its gates.
func told(x *explain.Explanation) string {
	data, err := json.Marshal(map[string]any{"nodes": x.Nodes, "feasible": x.Feasible, "details": x.Details})
	if err != nil {
		panic(err)
	}
	return string(data)
}

// The cache of classes and the states that modules keep cannot be seen, with the
// whole modern set: whatever happens to the cluster, and when the policy's
// configuration is swapped for another and back, a scheduler that lived through it
// says of every pod and node what one says that sees the cluster for the first
// time.
//
// CACHE_SEED draws other changes, CACHE_ROUNDS says how many.
func TestCacheIsInvisible(t *testing.T) {
	set := build(t)
	from, rounds := number(t, "CACHE_SEED", 1), number(t, "CACHE_ROUNDS", 25)
	clusters := cases(t)
	first := func(family string) *cluster {
		return clusters[slices.IndexFunc(clusters, func(c *cluster) bool { return c.Family == family && len(c.Config) == 0 })]
	}
	other := []pluginConfig{
		{"InterPodAffinity", json.RawMessage(`{"hardPodAffinityWeight": 90}`)},
		{"PodTopologySpread", json.RawMessage(`{"defaultingType": "List", "defaultConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]}`)},
		{"NodeResourcesFit", json.RawMessage(`{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}`)},
	}
	for seed, family := range []string{"Mixed", "PodTopologySpread", "InterPodAffinity", "VolumeBinding", "NodeVolumeLimits"} {
		t.Run(family, func(t *testing.T) {
			liveThrough(t, set, newLiving(t, first(family), uint64(from*100+seed)), other, rounds)
		})
	}
}

// number is a number that the environment may give.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func liveThrough(t *testing.T, set *set, l *living, other []pluginConfig, rounds int) {
	hosts := []*served{set.serve(t, nil), set.serve(t, other)}
	defer hosts[0].stop()
	defer hosts[1].stop()
	references := []*served{set.serve(t, nil), set.serve(t, other)}
	defer references[0].stop()
	defer references[1].stop()
	objects := map[string]cache.ListerWatcher{}
	for _, kind := range readable {
		objects[kind] = l.sources[kind]
	}
	source := &swappable{current: hosts[0].source, changed: make(chan struct{}, 1)}
	s, err := scheduler.New(scheduler.Config{Seed: 1}, scheduler.Deps{
		Pods: l.sources["Pod"], Nodes: l.sources["Node"], Objects: objects,
		Profiles: map[string]scheduler.PolicySource{v1.DefaultSchedulerName: source},
		Bind:     func(context.Context, *v1.Binding) error { return fmt.Errorf("nothing is to be bound here") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		h.host.SetReplicaSource(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	which := 0
	for round := range rounds {
		for range l.random.IntN(6) {
			l.change()
		}
		if l.random.IntN(5) == 0 {
			which = 1 - which
			source.swap(hosts[which].source)
		}
		r := references[which]
		r.generation += 1 << 32
		want, err := scheduler.Each(t.Context(), l.picture(), l.asked, map[string]scheduler.PolicySource{v1.DefaultSchedulerName: r.source},
			r.host.SetReplicaSource, r.generation, explain.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range l.asked {
			// What happened arrives by and by; once it has, nothing comes that could
			// mend an answer that was kept too long.
			var have *explain.Explanation
			for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
				have, err = s.Why(ctx, p.Namespace, p.Name, explain.Options{Now: true})
				if err == nil && told(have) == told(want[i]) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("round %d, policy %d, pod %s (%v):\nkept  %s\nasked %s", round, which, p.Name, err, short(have, want[i]), short(want[i], have))
				}
			}
		}
	}
}

// short is what of an explanation is another in the other.
func short(x, other *explain.Explanation) string {
	if x == nil || other == nil {
		return "nothing"
	}
	out := fmt.Sprintf("%d of %d nodes fit %s;", x.Feasible, x.Nodes, x.Message)
	of := map[string]string{}
	for i := range other.Details {
		data, _ := json.Marshal(other.Details[i])
		of[other.Details[i].Node] = string(data)
	}
	for i := range x.Details {
		if data, _ := json.Marshal(x.Details[i]); string(data) != of[x.Details[i].Node] && len(out) < 3000 {
			out += " " + string(data)
		}
	}
	return out
}
