package sdk

// Idle reports whether plugin i has nothing to say about a class: each node fits, or
// has the raw score 0, until an object that the plugin reads changes.
func (g *Guest) Idle(i int, class uint32) (idle bool, err error) {
	p, err := g.plugin(i, "")
	if err != nil || p.idle == nil {
		return false, err
	}
	defer contain(p.name, &err)
	if err := g.ask(p, class); err != nil {
		return false, err
	}
	return p.idles(&g.request), nil
}

// idles reports whether the plugin has nothing to say about the pod that was asked about.
func (p *servedState) idles(r *Request) bool { return p.idle != nil && p.idle(r.Pod, r.State) }
