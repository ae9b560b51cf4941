// Package imagelocality is the priority ImageLocality: the more bytes of the pod's
// images a node has already, the better; an image that few nodes have counts less,
// so that they do not get all of its pods.
package imagelocality

import (
	"slices"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "ImageLocality"

// Sums up to floor score 0, those from ceiling a container on 100.
const (
	mb      = 1024 * 1024
	floor   = 23 * mb
	ceiling = 1000 * mb
)

// New returns the priority. It takes no configuration.
//
// The raw score of a node is the bytes that it has, which depends on that node
// alone, so that a binding asks about one node. How many nodes have an image comes
// in when scores are normalised, which is done anew when a node changed.
func New() sdk.Priority {
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNodeObject, Normalize: sdk.NormalizePluginNonzero, MaxScore: sdk.MaxFrameworkScore,
		Prepare: prepare, Score: score, ScoreNodes: scoreNodes, NormalizeFunc: normalize,
	}
}

// image is one that a pod needs.
type image struct {
	name  string
	uses  int64 // containers and volumes
	size  int64 // of the first node that has it
	nodes int   // that have it
}

type state struct {
	images     []image
	containers int64
	// nodes and has remember, by node index, the node that was looked at and
	// which images it has (a bit each, words a node). A node that changes is
	// another *sdk.Node.
	nodes []*sdk.Node
	has   []uint64
	words int
	// at is the sdk.Cluster.NodeChanges that worth, by image, was worked out at.
	at    uint64
	worth []int64
}

func prepare(_ *sdk.Cluster, pod *sdk.Pod) any {
	s := &state{containers: int64(len(pod.InitContainers) + len(pod.Containers))}
	add := func(name string) {
		// Nodes report full names; without tag or digest means latest.
		if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
			name += ":latest"
		}
		for i := range s.images {
			if s.images[i].name == name {
				s.images[i].uses++
				return
			}
		}
		s.images = append(s.images, image{name: name, uses: 1})
	}
	for i := range pod.InitContainers {
		add(pod.InitContainers[i].Image)
	}
	for i := range pod.Containers {
		add(pod.Containers[i].Image)
	}
	for i := range pod.Volumes {
		if pod.Volumes[i].Type == "image" {
			add(pod.Volumes[i].ID)
		}
	}
	s.words = (len(s.images) + 63) / 64
	return s
}

func scoreNodes(b *sdk.Batch) {
	r, scores := sdk.Request{State: b.State}, b.Scores()
	for k, n := range b.Nodes {
		if len(n.Images) > 0 {
			r.Node = n
			scores[k] = score(&r)
		}
	}
}

func score(r *sdk.Request) int64 {
	var sum int64
	s := r.State.(*state)
	for i := range s.images {
		if found := find(r.Node, s.images[i].name); found != nil {
			sum += found.SizeBytes * s.images[i].uses
		}
	}
	return sum
}

func find(node *sdk.Node, name string) *sdk.Image {
	for i := range node.Images {
		if slices.Contains(node.Images[i].Names, name) {
			return &node.Images[i]
		}
	}
	return nil
}

// look brings what is remembered of the cluster's nodes up to date and returns how
// many there are.
func (s *state) look(c *sdk.Cluster) (total int) {
	for i := range s.images {
		s.images[i].nodes = 0
	}
	for node := range c.Nodes {
		total++
		index := int(node.Index)
		for len(s.nodes) <= index {
			s.nodes = append(s.nodes, nil)
			s.has = append(s.has, make([]uint64, s.words)...)
		}
		has := s.has[index*s.words : (index+1)*s.words]
		if s.nodes[index] != node {
			s.nodes[index] = node
			clear(has)
			for i := range s.images {
				if find(node, s.images[i].name) != nil {
					has[i/64] |= 1 << (i % 64)
				}
			}
		}
		for i := range s.images {
			if has[i/64]&(1<<(i%64)) == 0 {
				continue
			}
			if s.images[i].nodes++; s.images[i].nodes == 1 {
				s.images[i].size = find(node, s.images[i].name).SizeBytes
			}
		}
	}
	return total
}

func normalize(c *sdk.Cluster, _ *sdk.Pod, prepared any, nodes []*sdk.Node, scores []int64) {
	s := prepared.(*state)
	if now := c.NodeChanges(); s.worth == nil || s.at != now {
		total := s.look(c)
		s.at, s.worth = now, make([]int64, len(s.images))
		for i := range s.images {
			im := &s.images[i]
			s.worth[i] = im.uses * int64(float64(im.size)*(float64(im.nodes)/float64(total)))
		}
	}
	most := ceiling * s.containers
	for k, node := range nodes {
		var sum int64
		has := s.has[int(node.Index)*s.words : (int(node.Index)+1)*s.words]
		for i := range s.images {
			if has[i/64]&(1<<(i%64)) != 0 {
				sum += s.worth[i]
			}
		}
		// The ceiling of a pod without containers lies below the floor.
		if sum < floor {
			sum = floor
		} else if sum > most {
			sum = most
		}
		scores[k] = sdk.MaxFrameworkScore * (sum - floor) / (most - floor)
	}
}
