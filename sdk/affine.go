package sdk

// affine counts, by node index, the pods with affinity or anti-affinity: mostly there
// are none, and a class that asks for neither need not look at every pod for them.
type affine struct {
	of  []int32
	all int
}

func (a *affine) count(index uint32, pod *Pod, by int32) {
	if pod.PodAffinity == nil && pod.PodAntiAffinity == nil {
		return
	}
	for int(index) >= len(a.of) {
		a.of = append(a.of, 0)
	}
	a.of[index] += by
	a.all += int(by)
}

// drop forgets a node that is gone with its pods.
func (a *affine) drop(index uint32) {
	if int(index) < len(a.of) {
		a.all -= int(a.of[index])
		a.of[index] = 0
	}
}

// AffinePods calls yield for each pod on a node that has affinity or anti-affinity to
// pods, in order of nodes.
func (c *Cluster) AffinePods(yield func(*Node, *Pod) bool) {
	if c.affine.all == 0 {
		return
	}
	for index, n := range c.affine.of {
		if n == 0 || c.nodes[index] == nil {
			continue
		}
		for _, pod := range c.nodes[index].Pods {
			if (pod.PodAffinity != nil || pod.PodAntiAffinity != nil) && !yield(c.nodes[index], pod) {
				return
			}
		}
	}
}
