package sdk

import "fmt"

// Aloof reports whether plugin i says of a class that it and the others of which it
// says so do not concern each other: a pod of one changes no answer about another.
func (g *Guest) Aloof(i int, class uint32) (aloof bool, err error) {
	p, err := g.plugin(i, "")
	if err != nil || p.aloof == nil {
		return false, err
	}
	defer contain(p.name, &err)
	pod := g.cluster.classes[class]
	if pod == nil {
		return false, fmt.Errorf("%w: %d", ErrClass, class)
	}
	return p.aloof(pod), nil
}
