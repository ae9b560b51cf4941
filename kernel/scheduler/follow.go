package scheduler

import (
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// follow keeps a snapshot that only knows names and what changed: what class
// results are brought up to date by.
func (s *snapshot) follow(operations []*contractv1.Operation) {
	for _, operation := range operations {
		switch op := operation.Op.(type) {
		case *contractv1.Operation_NodeSet:
			index := op.NodeSet.Index
			for int(index) >= len(s.byIndex) {
				s.byIndex = append(s.byIndex, nil)
			}
			if s.byIndex[index] == nil {
				s.count++
				s.listed = nil
			}
			s.byIndex[index] = &nodeEntry{name: op.NodeSet.Node.Name, index: index, node: op.NodeSet.Node}
			s.nodes++
			s.log.add(touch{node: index, object: true})
		case *contractv1.Operation_NodeRemove:
			if int(op.NodeRemove) < len(s.byIndex) && s.byIndex[op.NodeRemove] != nil {
				s.byIndex[op.NodeRemove] = nil
				s.listed = nil
				s.count--
				s.nodes++
				s.log.add(touch{node: op.NodeRemove, object: true})
			}
		case *contractv1.Operation_PodAdd:
			s.log.add(touch{node: op.PodAdd.Node})
		case *contractv1.Operation_PodRemove:
			s.log.add(touch{node: op.PodRemove.Node})
		case *contractv1.Operation_ObjectSet:
			s.edited(op.ObjectSet.Key.Kind)
		case *contractv1.Operation_ObjectRemove:
			s.edited(op.ObjectRemove.Kind)
		}
	}
}
