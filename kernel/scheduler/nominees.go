package scheduler

import (
	"slices"
)

func (s *snapshot) nominate(p *clusterPod, node string) {
	if s.nominees == nil {
		s.nominees = map[string][]*clusterPod{}
	}
	s.nominees[node] = append(s.nominees[node], p)
	s.renominated(node)
}

func (s *snapshot) unnominate(p *clusterPod, node string) {
	s.nominees[node] = slices.DeleteFunc(s.nominees[node], func(other *clusterPod) bool { return other == p })
	if len(s.nominees[node]) == 0 {
		delete(s.nominees, node)
	}
	s.renominated(node)
}

// renominated has the classes look at the node again.
func (s *snapshot) renominated(node string) {
	if e := s.byName[node]; e != nil && e.node != nil {
		s.log.add(touch{node: e.index})
	}
}

// nomineesAbove are the pods nominated to a node with a priority or a higher one,
// but for one.
func (s *snapshot) nomineesAbove(node string, priority int32, but *clusterPod) []*clusterPod {
	var list []*clusterPod
	for _, p := range s.nominees[node] {
		if p != but && p.base.Message.GetPriority() >= priority {
			list = append(list, p)
		}
	}
	return list
}
