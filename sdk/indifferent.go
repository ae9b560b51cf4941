package sdk

// Indifferent reports whether pods of a class do not concern each other, as far as
// plugin i goes: one that is put on a node changes nothing for the next on others.
func (g *Guest) Indifferent(i int, class uint32) (indifferent bool, err error) {
	if aloof, err := g.Aloof(i, class); err != nil || aloof {
		return aloof, err
	}
	p, err := g.plugin(i, "")
	if err != nil || p.scope != ScopeCluster || p.indifferent == nil {
		return err == nil && p.scope != ScopeCluster, err
	}
	defer contain(p.name, &err)
	if err := g.ask(p, class); err != nil {
		return false, err
	}
	return p.indifferent(g.request.Pod, g.request.State), nil
}
