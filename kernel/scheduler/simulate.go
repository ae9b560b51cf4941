package scheduler

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/kernel/scheduler/convert"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// Cluster is a picture of a cluster as the scheduler needs it. Objects are
// those of the kinds that plugins read.
type Cluster struct {
	Nodes   []*v1.Node
	Pods    []*v1.Pod
	Objects []runtime.Object
	// Extenders are asked as a scheduler asks them; they do not bind.
	Extenders []Extender
}

// Add puts an object, or each of a list, where it belongs. Kinds that the
// scheduler does not look at are left out.
func (c *Cluster) Add(object runtime.Object) error {
	if meta.IsListType(object) {
		return meta.EachListItem(object, c.Add)
	}
	switch o := object.(type) {
	case *v1.Node:
		c.Nodes = append(c.Nodes, o)
	case *v1.Pod:
		c.Pods = append(c.Pods, o)
	default:
		if _, err := convert.Object(o); err == nil {
			c.Objects = append(c.Objects, o)
		}
	}
	return nil
}

// SimulationMax bounds the pods of one simulation.
const SimulationMax = 10_000

// Simulate places pods on a cluster that is only a picture: the scheduler's own
// queue and cycle decide, by the policies of profiles, and nothing is written;
// plugins behind the decision (reserve, permit, bind and after) are not asked.
// Pods of the cluster that are bound occupy their nodes, those that wait are
// left out. feed, if not nil, is told where plugins are fed from in full. The explanations are in the order of pods. seed makes the choice
// between tied nodes repeatable; 0: a random one. With before, what another
// policy made of the same pods, a pod stays on the node that it had there if that is
// one of the best here too: chance makes no difference between policies.
func Simulate(ctx context.Context, cluster *Cluster, pods []*v1.Pod, profiles map[string]PolicySource, feed func(ReplicaSource), seed uint64, before []*explain.Explanation, o explain.Options) ([]*explain.Explanation, error) {
	if len(pods) > SimulationMax {
		return nil, fmt.Errorf("simulate: %d pods; at most %d", len(pods), SimulationMax)
	}
	s, err := onPicture(ctx, Config{Seed: seed, BindWorkers: 1, Explain: max(len(pods), 1)}, cluster, profiles, feed)
	if err != nil {
		return nil, err
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	return s.simulate(ctx, pods, seed, before, o)
}

// onPicture is a scheduler that is not run and sees a cluster that is only a
// picture; its policies are ready.
func onPicture(ctx context.Context, c Config, cluster *Cluster, profiles map[string]PolicySource, feed func(ReplicaSource)) (*Scheduler, error) {
	none := &cache.ListWatch{}
	s, err := New(c, Deps{
		Pods: none, Nodes: none, Profiles: profiles, Extenders: cluster.Extenders,
		Bind: func(context.Context, *v1.Binding) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	s.unsynced = 0
	if feed != nil {
		feed(s)
	}
	if err := s.load(cluster); err != nil {
		return nil, err
	}
	if err := s.awaitPolicies(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// load takes in the picture.
func (s *Scheduler) load(cluster *Cluster) error {
	for _, n := range cluster.Nodes {
		s.whole.set(n)
		s.take(event{node: convert.Node(n)})
	}
	for _, o := range cluster.Objects {
		converted, err := convert.Object(o)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		s.take(event{object: converted})
	}
	for i, p := range cluster.Pods {
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if p.UID == "" {
			p = p.DeepCopy()
			p.UID = types.UID(fmt.Sprintf("snapshot-%d", i))
		}
		sh, err := newShape(p)
		if err != nil {
			return err
		}
		s.take(event{pod: p, shape: sh})
	}
	return nil
}

// awaitPolicies feeds the plugins and waits until they have everything.
func (s *Scheduler) awaitPolicies(ctx context.Context) error {
	for name, p := range s.profiles {
		for {
			if err := s.flush(ctx); err != nil {
				return err
			}
			if p.policy != nil && p.next == nil {
				break
			}
			if p.source.Policy() == nil {
				return fmt.Errorf("simulate: profile %s: %w", name, errNoPolicy)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("simulate: feed the plugins of profile %s: %w", name, context.Cause(ctx))
			case <-p.source.Changed():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	return nil
}

func (s *Scheduler) simulate(ctx context.Context, pods []*v1.Pod, seed uint64, before []*explain.Explanation, o explain.Options) ([]*explain.Explanation, error) {
	out := make([]*explain.Explanation, len(pods))
	at := map[types.UID]int{}
	now := s.clock.Now()
	for i, p := range pods {
		p = p.DeepCopy()
		p.UID = types.UID(fmt.Sprintf("simulated-%d", i))
		p.Spec.NodeName, p.DeletionTimestamp, p.Status = "", nil, v1.PodStatus{}
		complete(p)
		at[p.UID] = i
		out[i] = &explain.Explanation{Namespace: p.Namespace, Pod: p.Name, Profile: p.Spec.SchedulerName, State: "not-placed", Source: explain.SourceEvaluation, Time: now}
		if s.profiles[p.Spec.SchedulerName] == nil {
			out[i].Message = fmt.Sprintf("no profile %s; there are: %v", p.Spec.SchedulerName, slices.Sorted(maps.Keys(s.profiles)))
			continue
		}
		sh, err := newShape(p)
		if err != nil {
			return nil, err
		}
		// Equal priorities are tried in the order of the file.
		s.setPod(p, sh, now.Add(time.Duration(i)))
	}
	s.enter(ctx)
	for i, x := range out {
		// What was turned away at the entrance of the queue is in the record.
		if d, ok := s.record.Last(x.Namespace, x.Pod); ok && at[d.UID] == i && x.State == "not-placed" {
			x.Message = d.Message
			if p := s.pods[d.UID]; p != nil && p.place == gated {
				x.State = "gated"
			}
		}
	}
	for {
		p := s.queue.pop(now.Add(time.Duration(len(pods))))
		if p == nil || ctx.Err() != nil {
			return out, ctx.Err()
		}
		x := out[at[p.UID]]
		// Each pod has choices of its own, so that what became of others does not
		// change which of the tied nodes it takes.
		s.random = rand.New(rand.NewPCG(seed, uint64(at[p.UID])))
		preferred := ""
		if i := at[p.UID]; i < len(before) {
			preferred = before[i].Node
		}
		node, d, err := s.try(ctx, p, preferred)
		if err != nil {
			return nil, fmt.Errorf("simulate pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		x.Attempt, x.Nodes, x.Feasible, x.Message = 1, d.Nodes, d.Feasible, d.Message
		if node == nil {
			if d.Nodes > 0 {
				full, err := s.evaluate(ctx, p, o)
				if err != nil {
					return nil, err
				}
				x.Plugins, x.Details, x.Omitted, x.Change = full.Plugins, full.Details, full.Omitted, full.Change
			}
			continue
		}
		x.State, x.Node = "placed", node.Name
		explain.Tell(d.Snapshot, x, o.Limit())
	}
}

// try decides about a pod and puts it on its node; of the best nodes the
// preferred one, if it is among them.
func (s *Scheduler) try(ctx context.Context, p *podEntry, preferred string) (*snapshot.Node, *explain.Decision, error) {
	d := &explain.Decision{Namespace: p.Namespace, Name: p.Name, UID: p.UID, Time: s.clock.Now(), Attempt: 1, Nodes: s.snapshot.Count}
	node, err := s.decide(ctx, p, d)
	if err != nil || node == nil {
		return nil, d, err
	}
	c := p.shape.class
	for _, n := range c.Totals().Tops() {
		if other := s.snapshot.ByIndex[n]; other.Name == preferred && other != node {
			node, d.Snapshot = other, c.DecisionSnapshot(s.view, n, d.Total)
			break
		}
	}
	s.snapshot.AddPod(&p.Pod, node.Name)
	return node, d, nil
}

// complete fills in what the API would, as far as placement goes by it.
func complete(p *v1.Pod) {
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
	if p.Spec.SchedulerName == "" {
		p.Spec.SchedulerName = v1.DefaultSchedulerName
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			for name, quantity := range c.Resources.Limits {
				if _, ok := c.Resources.Requests[name]; !ok {
					if c.Resources.Requests == nil {
						c.Resources.Requests = v1.ResourceList{}
					}
					c.Resources.Requests[name] = quantity
				}
			}
			for k := range c.Ports {
				port := &c.Ports[k]
				if port.Protocol == "" {
					port.Protocol = v1.ProtocolTCP
				}
				if p.Spec.HostNetwork && port.HostPort == 0 {
					port.HostPort = port.ContainerPort
				}
			}
		}
	}
}
