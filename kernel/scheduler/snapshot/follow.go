package snapshot

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Follow keeps a snapshot that only knows names and what changed: what class
// results are brought up to date by.
func (s *Snapshot) Follow(operations []*contractv1.Operation) {
	for _, operation := range operations {
		switch op := operation.Op.(type) {
		case *contractv1.Operation_NodeSet:
			index := op.NodeSet.Index
			for int(index) >= len(s.ByIndex) {
				s.ByIndex = append(s.ByIndex, nil)
			}
			if s.ByIndex[index] == nil {
				s.Count++
				s.listed = nil
			}
			s.ByIndex[index] = &Node{Name: op.NodeSet.Node.Name, Index: index, Object: op.NodeSet.Node}
			s.NodeVersion++
			s.Log.Add(Touch{Node: index, Object: true})
		case *contractv1.Operation_NodeRemove:
			if int(op.NodeRemove) < len(s.ByIndex) && s.ByIndex[op.NodeRemove] != nil {
				s.ByIndex[op.NodeRemove] = nil
				s.listed = nil
				s.Count--
				s.NodeVersion++
				s.Log.Add(Touch{Node: op.NodeRemove, Object: true})
			}
		case *contractv1.Operation_PodAdd:
			s.Log.Add(Touch{Node: op.PodAdd.Node})
		case *contractv1.Operation_PodRemove:
			s.Log.Add(Touch{Node: op.PodRemove.Node})
		case *contractv1.Operation_ObjectSet:
			s.objectChanged(op.ObjectSet.Key.Kind)
		case *contractv1.Operation_ObjectRemove:
			s.objectChanged(op.ObjectRemove.Kind)
		}
	}
}
