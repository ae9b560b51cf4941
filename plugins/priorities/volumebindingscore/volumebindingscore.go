// Package volumebindingscore is the priority VolumeBindingScore: of the nodes that
// fit, those are better on which the pod's claims fill their volumes, or the room
// that is left for a storage class, as the configured shape wants. It is the scoring
// half of kube-scheduler's VolumeBinding with the gate StorageCapacityScoring, which
// is off by default: so no profile that ships names it.
package volumebindingscore

import (
	"math"

	"pintle.dev/pintle/plugins/predicates/noderesources"
	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/contract"
)

// Name is the name by which configurations switch the priority.
const Name = "VolumeBindingScore"

type priority struct{ shape []noderesources.Point }

// New returns the priority.
func New() sdk.Priority {
	p := &priority{}
	if err := p.configure(nil); err != nil {
		panic(err) // the defaults are valid
	}
	return sdk.Priority{
		Name: Name, Scope: sdk.ScopeNode, MaxScore: sdk.MaxFrameworkScore, Contract: contract.Three, Reads: volumebinding.Reads(),
		Configure: p.configure,
		Prepare:   func(c *sdk.Cluster, pod *sdk.Pod) any { return volumebinding.ClaimsOf(c, pod) },
		Score:     p.score,
	}
}

func (p *priority) configure(data []byte) error {
	config, err := volumebinding.ReadConfig(data)
	if err != nil {
		return err
	}
	p.shape = config.Shape
	return nil
}

// use is what is asked for of a storage class, and what there is.
type use struct{ requested, capacity int64 }

func (p *priority) score(r *sdk.Request) int64 {
	claims := r.State.(*volumebinding.PodClaims)
	if len(claims.Waiting) == 0 {
		return 0
	}
	choice, _ := claims.Find(r.Cluster, r.Node)
	classes := map[string]use{}
	for _, b := range choice.Bindings {
		u := classes[b.Volume.Storage.ClassName]
		classes[b.Volume.Storage.ClassName] = use{u.requested + b.Claim.Storage.Bytes, u.capacity + b.Volume.Storage.Bytes}
	}
	if len(choice.Bindings) == 0 {
		for _, d := range choice.Provisions {
			if d.Capacity != nil {
				// The volumes of a class are made from one room.
				u := classes[d.Claim.Storage.ClassName]
				classes[d.Claim.Storage.ClassName] = use{u.requested + d.Claim.Storage.Bytes, d.Capacity.Storage.Bytes}
			}
		}
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, u := range classes {
		if u.capacity == 0 || u.requested > u.capacity {
			sum += noderesources.Along(p.shape, 100)
		} else {
			sum += noderesources.Along(p.shape, u.requested*100/u.capacity)
		}
	}
	return int64(math.Round(float64(sum) / float64(len(classes))))
}
