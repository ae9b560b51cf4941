// Package interpodaffinityscore is the priority InterPodAffinityScore, the scoring
// half of kube-scheduler's InterPodAffinity: a node is the better the more of the
// weight of preferred terms, of the pod and of the pods on nodes, its domains meet,
// and the less of those of anti-affinity.
//
// Scores are normalised from the smallest to the largest. So only differences count,
// and raw ones are told from what most nodes have (podaffinity.Relative).
package interpodaffinityscore

import (
	"pintle.dev/pintle/plugins/predicates/podaffinity"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch and weigh the priority.
const Name = "InterPodAffinityScore"

type priority struct{ args podaffinity.Args }

// New returns the priority, with a weight of 1 for required terms of pods on nodes
// until it is configured.
func New() sdk.Priority {
	p := &priority{args: podaffinity.Args{HardPodAffinityWeight: 1}}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeCluster, Normalize: sdk.NormalizeMinMax, MaxScore: sdk.MaxFrameworkScore, Reads: []string{podaffinity.KindNamespace},
		Configure: p.configure, Prepare: p.prepare, Follow: follow, Moved: moved, Aloof: aloof, ScoreNodes: score,
	}
}

func (p *priority) configure(data []byte) error {
	args, err := podaffinity.ParseArgs(data)
	p.args = args
	return err
}

// maxKnown bounds the affinities whose part a class remembers.
const maxKnown = 4096

// state is what a class knows: by domain, the weight of all terms that are met,
// from a base.
type state struct {
	subject podaffinity.Subject
	hard    int64
	mine    []podaffinity.Term // preferred; those of anti-affinity weigh less than 0
	sums    podaffinity.Sums
	// known is what an affinity of a pod on a node adds, as its affinity and as
	// its anti-affinity.
	known [2]map[*sdk.PodAffinity][]part
	moved []uint32
}

type part struct {
	sum    int
	weight int64
}

func (p *priority) prepare(c *sdk.Cluster, pod *sdk.Pod) any {
	s := &state{subject: podaffinity.NewSubject(c, pod), hard: p.args.HardPodAffinityWeight, sums: podaffinity.Relative(c, pod)}
	s.known[0], s.known[1] = map[*sdk.PodAffinity][]part{}, map[*sdk.PodAffinity][]part{}
	for anti, a := range [2]*sdk.PodAffinity{pod.PodAffinity, pod.PodAntiAffinity} {
		if a == nil {
			continue
		}
		for i := range a.Preferred {
			t := podaffinity.NewTerm(c, &a.Preferred[i], s.sums.Of(a.Preferred[i].TopologyKey))
			if anti == 1 {
				t.Weight = -t.Weight
			}
			s.mine = append(s.mine, t)
		}
	}
	if p.args.IgnorePreferredTermsOfExistingPods && len(s.mine) == 0 {
		return (*state)(nil)
	}
	podaffinity.CountThere(c, len(s.mine) > 0, s)
	s.sums.Settle()
	moved(s)
	return s
}

func follow(_ *sdk.Cluster, _ *sdk.Pod, prepared any, changes []sdk.Change) any {
	s := prepared.(*state)
	if s == nil {
		return s
	}
	podaffinity.CountChanges(changes, s)
	s.sums.Settle()
	return s
}

// aloof: the pod asks for no pods and against none. What others ask for is of pods
// that do ask.
func aloof(pod *sdk.Pod) bool {
	return pod.PodAffinity == nil && pod.PodAntiAffinity == nil
}

// moved lists the nodes of the domains whose sum, from the base, changed.
func moved(prepared any) ([]uint32, bool) {
	s := prepared.(*state)
	if s == nil {
		return nil, false
	}
	s.moved = s.sums.Moved(s.moved[:0])
	return s.moved, false
}

// Count implements podaffinity.Counter.
func (s *state) Count(node *sdk.Node, pod *sdk.Pod, sign int64) {
	for i := range s.mine {
		if t := &s.mine[i]; t.Selects(pod) {
			s.sums.List[t.Sum].Add(node, sign*t.Weight)
		}
	}
	if pod.PodAffinity != nil {
		s.theirs(node, pod.PodAffinity, 0, sign)
	}
	if pod.PodAntiAffinity != nil {
		s.theirs(node, pod.PodAntiAffinity, 1, sign)
	}
}

// theirs adds what the terms of a pod on a node say of the class.
func (s *state) theirs(node *sdk.Node, a *sdk.PodAffinity, anti int, sign int64) {
	parts, ok := s.known[anti][a]
	if !ok {
		if anti == 0 && s.hard > 0 {
			for i := range a.Required {
				parts = s.part(parts, &a.Required[i], s.hard)
			}
		}
		for i := range a.Preferred {
			weight := int64(a.Preferred[i].Weight)
			if anti == 1 {
				weight = -weight
			}
			parts = s.part(parts, &a.Preferred[i], weight)
		}
		if len(s.known[anti]) >= maxKnown {
			clear(s.known[anti])
		}
		s.known[anti][a] = parts
	}
	for _, p := range parts {
		s.sums.List[p.sum].Add(node, sign*p.weight)
	}
}

func (s *state) part(parts []part, t *sdk.PodAffinityTerm, weight int64) []part {
	if !s.subject.Selected(t) {
		return parts
	}
	return append(parts, part{s.sums.Of(t.TopologyKey), weight})
}

func score(b *sdk.Batch) {
	s := b.State.(*state)
	if s == nil || s.sums.Zero() {
		return
	}
	scores := b.Scores()
	for k, node := range b.Nodes {
		for i := range s.sums.List {
			n, _ := s.sums.List[i].At(node)
			scores[k] += n
		}
	}
}
