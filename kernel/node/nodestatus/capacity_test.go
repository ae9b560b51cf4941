package nodestatus

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func texts(list corev1.ResourceList) map[string]string {
	out := map[string]string{}
	for name, q := range list {
		out[string(name)] = q.String()
	}
	return out
}

func TestCapacity(t *testing.T) {
	m := Machine{CPUs: 2, Memory: 4 << 30, HugePages: map[int64]int64{2 << 20: 64 << 20, 1 << 30: 0}}
	have := quantities("cpu", "99", "example.com/foo", "3", "hugepages-16Ki", "16Ki", "hugepages-2Mi", "2Mi", "attachable-volumes-x", "7")
	got := m.capacity(have, 10<<30, quantities("pods", "110", "cpu", "1"))
	want := map[string]string{
		"cpu": "1", "memory": "4Gi", "pods": "110", "ephemeral-storage": "10Gi", "hugepages-2Mi": "64Mi", "hugepages-1Gi": "0",
		"example.com/foo": "3", "attachable-volumes-x": "7",
	}
	if !maps.Equal(texts(got), want) {
		t.Errorf("capacity %v, want %v", texts(got), want)
	}
	want["memory"], want["cpu"], want["ephemeral-storage"] = "3Gi", "0", "9Gi"
	left := allocatable(got, quantities("cpu", "2", "memory", "960Mi", "ephemeral-storage", "1Gi", "example.com/other", "1"))
	if !maps.Equal(texts(left), want) {
		t.Errorf("allocatable %v, want %v", texts(left), want)
	}
	if _, ok := have["pods"]; ok {
		t.Error("the Node that was given was changed")
	}
}

// TestExtendedResourcesStay: what an administrator advertises on the node stays there and may be asked for; what is
// taken back goes.
func TestExtendedResourcesStay(t *testing.T) {
	b := newBench(t, Config{})
	b.register()
	b.write(func(n *corev1.Node) { n.Status.Capacity["example.com/foo"] = resource.MustParse("3") })
	b.Round(t.Context())
	n := b.read()
	if c, a := n.Status.Capacity["example.com/foo"], n.Status.Allocatable["example.com/foo"]; c.Value() != 3 || a.Value() != 3 {
		t.Errorf("capacity %v, allocatable %v; want 3 of both", &c, &a)
	}
	if err := b.Register(t.Context()); err != nil { // as at a restart
		t.Fatal(err)
	}
	b.write(func(n *corev1.Node) { delete(n.Status.Capacity, "example.com/foo") })
	b.Round(t.Context())
	if q, there := b.read().Status.Allocatable["example.com/foo"]; there {
		t.Errorf("%v that the node no longer has are allocatable", &q)
	}
}

// TestLabelsStay: a start changes well-known labels alone.
func TestLabelsStay(t *testing.T) {
	b := newBench(t, Config{Labels: map[string]string{"disk": "ssd", corev1.LabelTopologyZone: "a"}})
	b.register()
	if n := b.read(); n.Labels["disk"] != "ssd" {
		t.Fatalf("labels %v", n.Labels)
	}
	b.write(func(n *corev1.Node) {
		n.Labels["disk"], n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelArchStable], n.Labels["own"] = "hdd", "b", "pdp11", "x"
	})
	b.register()
	n := b.read()
	if n.Labels["disk"] != "hdd" || n.Labels["own"] != "x" {
		t.Errorf("a start changed labels of an administrator: %v", n.Labels)
	}
	if n.Labels[corev1.LabelTopologyZone] != "a" || n.Labels[corev1.LabelArchStable] == "pdp11" {
		t.Errorf("a start left wrong well-known labels: %v", n.Labels)
	}
}

func TestHugePages(t *testing.T) {
	dir := t.TempDir()
	for name, pages := range map[string]string{"hugepages-2048kB": "512\n", "hugepages-1048576kB": "0\n", "hugepages-x": "1", "other": "1", "hugepages-64kB": "many"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "nr_hugepages"), []byte(pages), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := hugePages(dir), map[int64]int64{2 << 20: 1 << 30, 1 << 30: 0}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := hugePages(filepath.Join(dir, "none")); len(got) != 0 {
		t.Errorf("a kernel without huge pages has %v", got)
	}
	if n := hugePageResource(2 << 20); n != "hugepages-2Mi" {
		t.Errorf("resource %s", n)
	}
}

// TestDefaultReservation: the machine keeps something for itself, and a small one not too much.
func TestDefaultReservation(t *testing.T) {
	for memory, want := range map[int64]string{512 << 20: "128Mi", 2 << 30: "256Mi", 8 << 30: "858993459", 256 << 30: "2Gi"} {
		r := DefaultReservation(Machine{CPUs: 2, Memory: memory})
		if got := r.Memory(); got.String() != want {
			t.Errorf("of %d bytes %s are reserved, want %s", memory, got, want)
		}
		if r.Cpu().MilliValue() != 100 {
			t.Errorf("CPU: %v", r.Cpu())
		}
	}
	b := newBench(t, Config{Reserved: DefaultReservation(Measure())})
	b.register()
	s := b.read().Status
	if s.Allocatable.Memory().Cmp(*s.Capacity.Memory()) >= 0 || s.Allocatable.Cpu().Cmp(*s.Capacity.Cpu()) >= 0 {
		t.Errorf("allocatable %v, capacity %v", texts(s.Allocatable), texts(s.Capacity))
	}
	if _, ok := s.Allocatable[ResourcePID]; ok {
		t.Error("process ids are a resource of the node")
	}
	if l := b.PodLimits(); l.MemoryBytes != s.Allocatable.Memory().Value()+100<<20 || l.MilliCPU != s.Allocatable.Cpu().MilliValue() || l.PIDs <= 0 {
		t.Errorf("limits of all pods %+v", l)
	}
}
