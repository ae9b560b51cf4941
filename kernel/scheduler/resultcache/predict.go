package resultcache

import (
	"context"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Prediction is what becomes of a node with the best total when it gets a pod more of
// the class. It is a guess and is verified: a node with as many pods and the same raw
// scores became that the last time. The zero value is what is most often so.
type Prediction uint8

const (
	Lower  Prediction = iota // its total is less
	Same                     // its total is the same
	Higher                   // its total is more
)

// maxPredictions bounds what a class remembers of them.
const maxPredictions = 1 << 10

// Taken is a node that gets a pod before the plugins are asked.
type Taken struct {
	Node       uint32
	was        uint64 // stands for the raw scores and the number of pods that it had
	Prediction Prediction
}

// Predict is a node that is to get a pod; its scores, and how many pods it has, are those
// before.
func (c *Class) Predict(node uint32, pods int) Taken {
	const prime = 1099511628211 // of the hash FNV-1a
	was := (uint64(14695981039346656037) ^ uint64(pods)) * prime
	for i := range c.priorities {
		was = (was ^ uint64(c.priorities[i].rawOf(node))) * prime
	}
	return Taken{node, was, c.predictions[was]}
}

// Observe notes what became of a node that had the best total and was told its pod;
// it reports whether that was forecast.
func (c *Class) Observe(t Taken, best int64) bool {
	fate := Same
	switch total := c.totals.totals[t.Node]; {
	case total < best:
		fate = Lower
	case total > best:
		fate = Higher
	}
	if fate != c.predictions[t.was] {
		if c.predictions == nil || len(c.predictions) >= maxPredictions {
			c.predictions = map[uint64]Prediction{}
		}
		c.predictions[t.was] = fate
	}
	return fate == t.Prediction
}

// ChoseByTotal reports whether a node was chosen by the totals, which still stand, of answers by
// a policy.
func (c *Class) ChoseByTotal(policy contractv1.Policy, node uint32) bool {
	return policy == c.policy && c.known && c.trouble == nil && c.totalled && len(c.changed) == 0 && !c.flipped &&
		c.totals.totals[node] == c.totals.most
}

// UpTo reports whether the class has taken in the change log up to a position.
func (c *Class) UpTo(position uint64) bool { return c.position == position }

// DropTotal takes a node out of the totals: it is the one of a pod that the plugins were not
// told of.
func (c *Class) DropTotal(node uint32) {
	c.totals.drop(node)
	c.change(node)
}

// VerifyTotals brings verdicts, scores and totals up to date after nodes got pods; it reports
// whether totals are comparable with those before.
func (c *Class) VerifyTotals(ctx context.Context, v *View) bool {
	if err := c.Update(ctx, c.policy, v); err != nil || !c.totalled || c.flipped || c.trouble != nil {
		return false
	}
	if _, err := c.UpdateTotals(ctx); err != nil {
		c.Forget()
		return false
	}
	return !c.remeasured && c.trouble == nil
}
