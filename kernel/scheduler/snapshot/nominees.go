package snapshot

import (
	"slices"
)

func (s *Snapshot) Nominate(p *Pod, node string) {
	if s.Nominees == nil {
		s.Nominees = map[string][]*Pod{}
	}
	s.Nominees[node] = append(s.Nominees[node], p)
	s.renominated(node)
}

func (s *Snapshot) Unnominate(p *Pod, node string) {
	s.Nominees[node] = slices.DeleteFunc(s.Nominees[node], func(other *Pod) bool { return other == p })
	if len(s.Nominees[node]) == 0 {
		delete(s.Nominees, node)
	}
	s.renominated(node)
}

// renominated has the classes look at the node again.
func (s *Snapshot) renominated(node string) {
	if e := s.ByName[node]; e != nil && e.Object != nil {
		s.Log.Add(Touch{Node: e.Index})
	}
}

// NomineesAbove are the pods nominated to a node with a priority or a higher one,
// but for one.
func (s *Snapshot) NomineesAbove(node string, priority int32, but *Pod) []*Pod {
	var list []*Pod
	for _, p := range s.Nominees[node] {
		if p != but && p.Shape.Message.GetPriority() >= priority {
			list = append(list, p)
		}
	}
	return list
}
