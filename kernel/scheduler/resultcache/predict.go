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

// Predictor remembers what became of nodes that got a pod of a class more.
type Predictor struct {
	class       *Class
	predictions map[uint64]Prediction
}

// Taken is a node that gets a pod before the plugins are asked.
type Taken struct {
	Node       uint32
	was        uint64 // stands for the raw scores and the number of pods that it had
	Prediction Prediction
}

// Predict is a node that is to get a pod; its scores, and how many pods it has, are those
// before.
func (p *Predictor) Predict(node uint32, pods int) Taken {
	const prime = 1099511628211 // of the hash FNV-1a
	was := (uint64(14695981039346656037) ^ uint64(pods)) * prime
	for i := range p.class.priorities {
		was = (was ^ uint64(p.class.priorities[i].rawOf(node))) * prime
	}
	return Taken{node, was, p.predictions[was]}
}

// Observe notes what became of a node that had the best total and was told its pod;
// it reports whether that was forecast.
func (p *Predictor) Observe(t Taken, best int64) bool {
	fate := Same
	switch total := p.class.totals.totals[t.Node]; {
	case total < best:
		fate = Lower
	case total > best:
		fate = Higher
	}
	if fate != p.predictions[t.was] {
		if p.predictions == nil || len(p.predictions) >= maxPredictions {
			p.predictions = map[uint64]Prediction{}
		}
		p.predictions[t.was] = fate
	}
	return fate == t.Prediction
}

// ChoseByTotal reports whether a node was chosen by the totals, which still stand, of answers by
// a policy.
func (p *Predictor) ChoseByTotal(policy contractv1.Policy, node uint32) bool {
	return policy == p.class.policy && p.class.known && p.class.trouble == nil && p.class.totalled && len(p.class.changed) == 0 && !p.class.flipped &&
		p.class.totals.totals[node] == p.class.totals.most
}

// UpTo reports whether the class has taken in the change log up to a position.
func (p *Predictor) UpTo(position uint64) bool { return p.class.position == position }

// DropTotal takes a node out of the totals: it is the one of a pod that the plugins were not
// told of.
func (p *Predictor) DropTotal(node uint32) {
	p.class.totals.drop(node)
	p.class.change(node)
}

// VerifyTotals brings verdicts, scores and totals up to date after nodes got pods; it reports
// whether totals are comparable with those before.
func (p *Predictor) VerifyTotals(ctx context.Context, v *View) bool {
	if err := p.class.Update(ctx, p.class.policy, v); err != nil || !p.class.totalled || p.class.flipped || p.class.trouble != nil {
		return false
	}
	if _, err := p.class.UpdateTotals(ctx); err != nil {
		p.class.Forget()
		return false
	}
	return !p.class.remeasured && p.class.trouble == nil
}
