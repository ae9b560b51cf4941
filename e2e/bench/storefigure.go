package main

// comparison is what both sides reached in rounds that took turns.
type comparison struct {
	name, unit, peer string
	ours, theirs     []float64
	// atLeast or atMost is the goal for the ratio of ours to theirs; zero is
	// none.
	atLeast, atMost float64
}

func (c *comparison) add(ours, theirs float64) {
	c.ours, c.theirs = append(c.ours, ours), append(c.theirs, theirs)
}

// figure is the medians of both, and of the ratios of each round.
func (c comparison) figure() figure {
	f := figure{
		Name: c.name, Unit: c.unit, Value: median(c.ours), Rounds: c.ours, AtMost: c.atMost, AtLeast: c.atLeast,
		Peer: &peer{Name: c.peer, Value: median(c.theirs), Rounds: c.theirs},
	}
	f.Peer.Ratio = f.Value / f.Peer.Value
	if len(c.ours) == len(c.theirs) {
		ratios := make([]float64, len(c.ours))
		for i := range ratios {
			ratios[i] = c.ours[i] / c.theirs[i]
		}
		f.Peer.Ratio = median(ratios)
	}
	if c.atMost > 0 || c.atLeast > 0 {
		ok := (c.atMost == 0 || f.Peer.Ratio <= c.atMost) && f.Peer.Ratio >= c.atLeast
		f.Reached = &ok
	}
	return f
}

// middle makes a figure of the median, of which less is better; goal 0 is none.
func middle(name, unit string, goal float64, rounds ...float64) figure {
	f := figure{Name: name, Unit: unit, Value: median(rounds), Rounds: rounds, AtMost: goal}
	if goal > 0 {
		ok := f.Value <= goal
		f.Reached = &ok
	}
	return f
}
