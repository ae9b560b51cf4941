// Package volumebindingreserve is the reserve plugin VolumeBindingReserve: what the
// predicate VolumeBinding found for a pod's claims on the node that was chosen is
// the pod's from now on. The host is made to assume it, so that the next pod finds
// the volume taken, and VolumeBindingPreBind is handed it to be written.
package volumebindingreserve

import (
	"sync"

	"pintle.dev/pintle/plugins/predicates/claims"
	"pintle.dev/pintle/plugins/predicates/volumebinding"
	"pintle.dev/pintle/sdk"
)

// Name is the name by which configurations switch the plugin.
const Name = "VolumeBindingReserve"

// Claim names a claim; UID tells it from one that was made anew.
type Claim struct{ Namespace, Name, UID string }

// Binding gives a claim a volume.
type Binding struct {
	Claim  Claim
	Volume string
}

// Plan is what is to be written for a pod, and has come true when it is bound.
type Plan struct {
	Node       string
	Bindings   []Binding
	Provisions []Claim // their volumes are to be made for the node
}

// Ledger holds the plans of pods between Reserve and PreBind, which runs beside the
// scheduling. It is lost with the process: a pod without a plan is not bound.
type Ledger struct {
	mu    sync.Mutex
	plans map[string]*Plan // by pod UID
}

// NewLedger returns an empty one.
func NewLedger() *Ledger { return &Ledger{plans: map[string]*Plan{}} }

// Plan returns the plan of a pod, or nil.
func (l *Ledger) Plan(pod string) *Plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.plans[pod]
}

// Forget drops the plan of a pod.
func (l *Ledger) Forget(pod string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.plans, pod)
}

// Keep notes the plan of a pod.
func (l *Ledger) Keep(pod string, plan *Plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plans[pod] = plan
}

// New returns a function that makes the plugin, over a ledger that all instances
// share: plans are by pod.
func New(ledger *Ledger) func() sdk.Reserve {
	return func() sdk.Reserve {
		return sdk.Reserve{
			Name: Name, Scope: sdk.ScopeNodeObject, Pods: sdk.PodsWithClaims, Reads: volumebinding.Reads(), Events: volumebinding.Events(), Configure: volumebinding.Configure,
			Reserve:   func(p *sdk.Placement) sdk.Status { return reserve(ledger, p) },
			Unreserve: func(p *sdk.Placement) { ledger.Forget(p.Pod.UID) },
		}
	}
}

func reserve(ledger *Ledger, p *sdk.Placement) sdk.Status {
	need := volumebinding.ClaimsOf(p.Cluster, p.Pod.Pod)
	if need.Refusal != "" {
		return sdk.RefuseForGood(need.Refusal)
	}
	if p.Node == nil {
		return sdk.Refuse("node " + p.NodeName + " is gone")
	}
	choice, reasons := need.Find(p.Cluster, p.Node)
	if len(reasons) > 0 {
		return sdk.RefuseForGood(reasons...)
	}
	plan := &Plan{Node: p.NodeName}
	for _, b := range choice.Bindings {
		claim := Claim{b.Claim.Namespace, b.Claim.Name, b.Claim.UID}
		plan.Bindings = append(plan.Bindings, Binding{claim, b.Volume.Name})
		p.Assume(sdk.Assumption{
			Kind: "PersistentVolume", Name: b.Volume.Name,
			Claim: &sdk.ClaimReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		})
	}
	for _, d := range choice.Provisions {
		claim := Claim{d.Claim.Namespace, d.Claim.Name, d.Claim.UID}
		plan.Provisions = append(plan.Provisions, claim)
		p.Assume(sdk.Assumption{
			Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
			Annotations: map[string]string{claims.SelectedNode: p.NodeName},
		})
	}
	ledger.Keep(p.Pod.UID, plan)
	return sdk.Status{}
}
