package scheduler

// assumedPods are the pods that are assumed on a node. Each knows its place among
// them, so that none is looked for by its UID.
type assumedPods struct{ list []*podEntry }

func (a *assumedPods) add(p *podEntry) {
	if p.among == 0 {
		a.list = append(a.list, p)
		p.among = len(a.list)
	}
}

// remove does nothing for a pod that is none of them.
func (a *assumedPods) remove(p *podEntry) {
	if p.among == 0 {
		return
	}
	last := len(a.list) - 1
	moved := a.list[last]
	a.list[p.among-1], moved.among = moved, p.among
	a.list[last], p.among = nil, 0
	a.list = a.list[:last]
}
