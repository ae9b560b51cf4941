package imagelocality

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestScores(t *testing.T) {
	node := func(images ...any) *contractv1.Node {
		n := &contractv1.Node{}
		for i := 0; i < len(images); i += 2 {
			n.Images = append(n.Images, &contractv1.Image{Names: []string{images[i].(string), "x/" + images[i].(string)}, SizeBytes: int64(images[i+1].(int)) * mb})
		}
		return n
	}
	pod := func(images ...string) *contractv1.Pod {
		p := &contractv1.Pod{}
		for _, image := range images {
			p.Containers = append(p.Containers, &contractv1.Container{Image: image})
		}
		return p
	}
	volume := pod("gcr.io/none:1")
	volume.Volumes = []*contractv1.Volume{{Type: "image", Id: "gcr.io/250:1"}}
	for _, c := range []struct {
		name  string
		pod   *contractv1.Pod
		nodes []*contractv1.Node
		want  []int64
	}{
		{"two images spread on two nodes, prefer the larger image one", pod("gcr.io/40", "gcr.io/250"), []*contractv1.Node{node("gcr.io/40:latest", 40), node("gcr.io/250:latest", 250)}, []int64{0, 5}},
		{"two images on one node, prefer this node", pod("gcr.io/40:1", "gcr.io/300:1"), []*contractv1.Node{node("gcr.io/40:1", 40, "gcr.io/300:1", 300), node("gcr.io/10:1", 10)}, []int64{7, 0}},
		{"if exceed limit, use limit", pod("gcr.io/10:1", "gcr.io/4000:1"), []*contractv1.Node{node("gcr.io/4000:1", 4000), node("gcr.io/10:1", 10)}, []int64{100, 0}},
		{"if exceed limit, use limit (with node which has no images present)", pod("gcr.io/10:1", "gcr.io/4000:1"), []*contractv1.Node{node("gcr.io/4000:1", 4000), node("gcr.io/10:1", 10), node()}, []int64{66, 0, 0}},
		{"an image volume counts, and adds no container", volume, []*contractv1.Node{node("gcr.io/250:1", 250), node("gcr.io/10:1", 10)}, []int64{10, 0}},
		{"no containers", &contractv1.Pod{}, []*contractv1.Node{node("gcr.io/10:1", 10)}, []int64{0}},
		{"none of the images", pod("gcr.io/1:1"), []*contractv1.Node{node("gcr.io/10:1", 10), node()}, []int64{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := sdk.GuestOf(New())
			if err != nil {
				t.Fatal(err)
			}
			apply := func(ops ...*contractv1.Operation) {
				data, err := proto.Marshal(&contractv1.Delta{Operations: ops})
				if err == nil {
					err = g.Apply(data)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			set := func(i int, n *contractv1.Node) *contractv1.Operation {
				n.Name = fmt.Sprint("n", i)
				return &contractv1.Operation{Op: &contractv1.Operation_NodeSet{NodeSet: &contractv1.NodeSet{Index: uint32(i), Node: n}}}
			}
			apply(&contractv1.Operation{Op: &contractv1.Operation_ClassSet{ClassSet: &contractv1.ClassSet{Class: 1, Pod: c.pod}}})
			var nodes []uint32
			for i, n := range c.nodes {
				apply(set(i, n))
				nodes = append(nodes, uint32(i))
			}
			got := func() []int64 {
				scores := make([]int64, len(nodes))
				if err := g.Score(0, 1, nodes, scores); err != nil {
					t.Fatal(err)
				}
				if err := g.Normalize(0, 1, nodes, scores); err != nil {
					t.Fatal(err)
				}
				return scores
			}
			if got := got(); !slices.Equal(got, c.want) {
				t.Errorf("scores %v, want %v", got, c.want)
			}
			// A node that has them all, and goes again, changes what an image counts.
			apply(set(len(nodes), node("gcr.io/250:latest", 250, "gcr.io/4000:1", 4000)))
			got()
			apply(&contractv1.Operation{Op: &contractv1.Operation_NodeRemove{NodeRemove: uint32(len(nodes))}})
			if got := got(); !slices.Equal(got, c.want) {
				t.Errorf("scores %v after a node came and went, want %v", got, c.want)
			}
		})
	}
}
