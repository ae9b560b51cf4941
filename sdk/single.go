package sdk

// A module is asked about one node thousands of times a second. What such a question
// needs beside the node (the plugin, the pod and what was prepared for it) is as it
// was set up for the one before, if that asked the same plugin about the same class
// and nothing has come since.

// single is the last question: what g.request is set up for. It has no pointers, so
// that to write it costs nothing while the module collects garbage, as it does during
// thousands of calls.
type single struct {
	at    int // one more than the plugin's index; 0: none that may be asked again
	class uint32
}

// again reports whether g.request is set up for a question to plugin i about a class.
func (g *Guest) again(i int, class uint32) bool {
	return g.single.at == i+1 && i >= 0 && g.single.class == class
}

// stands notes that g.request is set up for plugin i and a class. One that may be
// idle is asked about that each time, and one whose answers end with time looks at
// the clock.
func (g *Guest) stands(p *servedState, i int, class uint32) {
	if p.idle == nil && !p.expires {
		g.single = single{i + 1, class}
	}
}

// filterAgain answers as Filter does about one node where again said so.
func (g *Guest) filterAgain(index uint32, out *uint32) (err error) {
	n := g.cluster.Node(index)
	if n == nil {
		return g.there([]uint32{index})
	}
	p, done := &g.plugins[g.single.at-1], false
	defer g.containUnless(&done, &err)
	r := &g.request
	r.about(n)
	if v := p.filter(r); len(v.Reasons) == 0 {
		*out = 0
	} else {
		*out = p.reasonID(v)
	}
	done = true
	return nil
}

// scoreAgain answers as Score does about one node where again said so.
func (g *Guest) scoreAgain(index uint32, out *int64) (err error) {
	n := g.cluster.Node(index)
	if n == nil {
		return g.there([]uint32{index})
	}
	p, done := &g.plugins[g.single.at-1], false
	defer g.containUnless(&done, &err)
	r := &g.request
	r.about(n)
	*out = p.score(r)
	done = true
	return nil
}

// containUnless is contain where that is not done: to ask whether there is a panic
// takes as long as a simple answer.
func (g *Guest) containUnless(done *bool, err *error) {
	if *done {
		return
	}
	if r := recover(); r != nil {
		*err = containment(g.plugins[g.single.at-1].name, r)
		g.single = single{}
	}
}
