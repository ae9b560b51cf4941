package plugintest

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Class is the class that questions of this package are asked about.
const Class = 1

// Cluster is a replica under construction. Nodes are numbered as they are added.
type Cluster struct {
	delta *contractv1.Delta
	names []string
	pods  int
	at    time.Time
}

// NewCluster returns an empty cluster.
func NewCluster() *Cluster {
	return &Cluster{delta: &contractv1.Delta{Generation: 1, Reset_: true}}
}

// At has questions be asked at a time, which is what Request.Now says.
func (c *Cluster) At(t time.Time) *Cluster {
	c.at = t
	return c
}

// Option changes a node.
type Option func(*contractv1.Node)

// CPU sets what a node offers, in thousandths of a CPU.
func CPU(milli int64) Option {
	return func(n *contractv1.Node) { n.Allocatable.MilliCpu, n.Capacity.MilliCpu = milli, milli }
}

// Memory sets what a node offers, in bytes.
func Memory(bytes int64) Option {
	return func(n *contractv1.Node) { n.Allocatable.Memory, n.Capacity.Memory = bytes, bytes }
}

// Label sets one label.
func Label(key, value string) Option {
	return func(n *contractv1.Node) { n.Labels[key] = value }
}

// Taint adds one taint.
func Taint(key, value, effect string) Option {
	return func(n *contractv1.Node) {
		n.Taints = append(n.Taints, &contractv1.Taint{Key: key, Value: value, Effect: effect})
	}
}

// With changes anything else.
func With(change func(*contractv1.Node)) Option { return change }

// Node adds a node of 4 CPUs, 8 GiB and 110 pods, changed by options.
func (c *Cluster) Node(name string, options ...Option) *Cluster {
	n := &contractv1.Node{
		Name: name, Uid: "node-" + name, Labels: map[string]string{"kubernetes.io/hostname": name},
		Capacity:    &contractv1.Resources{MilliCpu: 4000, Memory: 8 << 30, Pods: 110},
		Allocatable: &contractv1.Resources{MilliCpu: 4000, Memory: 8 << 30, Pods: 110},
	}
	for _, o := range options {
		o(n)
	}
	c.add(&contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: uint32(len(c.names)), Node: n}}})
	c.names = append(c.names, name)
	return c
}

// Pod puts a pod on a node that was added before. A pod without UID gets one.
func (c *Cluster) Pod(node string, pod *contractv1.Pod) *Cluster {
	for i, name := range c.names {
		if name == node {
			c.pods++
			if pod.Uid == "" {
				pod = proto.Clone(pod).(*contractv1.Pod)
				pod.Uid = fmt.Sprintf("pod-%d", c.pods)
			}
			c.add(&contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: uint32(i), Pod: pod}}})
			return c
		}
	}
	panic("plugintest: no node " + node)
}

// Object adds a cluster object.
func (c *Cluster) Object(o *contractv1.Object) *Cluster {
	c.add(&contractv1.Operation{Op: &contractv1.Operation_ObjectSet{ObjectSet: o}})
	return c
}

func (c *Cluster) add(op *contractv1.Operation) { c.delta.Operations = append(c.delta.Operations, op) }

// Delta returns the whole cluster with pod as class Class.
func (c *Cluster) Delta(pod *contractv1.Pod) *contractv1.Delta {
	d := proto.Clone(c.delta).(*contractv1.Delta)
	d.Operations = append(d.Operations, &contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: Class, Pod: pod}}})
	return d
}

// Indexes are all nodes.
func (c *Cluster) Indexes() []uint32 {
	list := make([]uint32, len(c.names))
	for i := range list {
		list[i] = uint32(i)
	}
	return list
}

func (c *Cluster) guest(t testing.TB, pod *contractv1.Pod, plugin any) *sdk.Guest {
	t.Helper()
	g, err := sdk.GuestOf(plugin)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(c.Delta(pod))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Apply(data); err != nil {
		t.Fatal(err)
	}
	if !c.at.IsZero() {
		g.SetClock(func() time.Time { return c.at })
	}
	return g
}

// Filter asks a predicate about every node: node name → reasons, nil where the
// pod fits.
func (c *Cluster) Filter(t testing.TB, p sdk.Predicate, pod *contractv1.Pod) map[string][]string {
	t.Helper()
	g := c.guest(t, pod, p)
	out := make([]uint32, len(c.names))
	if err := g.Filter(0, Class, c.Indexes(), out); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for i, name := range c.names {
		got[name] = g.Reasons(0, out[i])
	}
	return got
}

// Score asks a priority about every node: node name → raw score.
func (c *Cluster) Score(t testing.TB, p sdk.Priority, pod *contractv1.Pod) map[string]int64 {
	t.Helper()
	g := c.guest(t, pod, p)
	out := make([]int64, len(c.names))
	if err := g.Score(0, Class, c.Indexes(), out); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for i, name := range c.names {
		got[name] = out[i]
	}
	return got
}
