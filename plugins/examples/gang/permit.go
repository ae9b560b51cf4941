package main

import (
	"encoding/json"
	"fmt"
	"time"

	"pintle.dev/pintle/sdk"
)

// gang is the permit plugin's configuration.
type gang struct{ timeout time.Duration }

// newPermit returns the permit plugin Gang.
func newPermit() sdk.Permit {
	g := &gang{timeout: time.Minute}
	return sdk.Permit{
		Name: "Gang", Configure: g.configure, Permit: g.permit, Review: g.review,
		// What may help a group that gave up: another member, or room for one.
		Events: []sdk.Interest{
			{Kind: sdk.KindUnscheduledPod, Actions: sdk.ActionAdd, Helps: fellow},
			{Kind: sdk.KindPod, Actions: sdk.ActionDelete | sdk.ActionUpdatePodScaleDown, Helps: stranger},
			{Kind: sdk.KindNode, Actions: sdk.ActionAdd | sdk.ActionUpdateNodeAllocatable | sdk.ActionUpdateNodeTaint | sdk.ActionUpdateNodeLabel},
			sdk.OwnChange(sdk.ActionUpdatePodLabel | sdk.ActionUpdatePodScaleDown | sdk.ActionUpdatePodToleration),
		},
	}
}

func (g *gang) configure(data []byte) error {
	config := struct {
		Timeout string `json:"timeout"`
	}{"1m"}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("configuration of Gang: %w", err)
		}
	}
	timeout, err := time.ParseDuration(config.Timeout)
	if err != nil || timeout <= 0 || timeout > 15*time.Minute {
		return fmt.Errorf("configuration of Gang: timeout %q: use a duration up to 15m", config.Timeout)
	}
	g.timeout = timeout
	return nil
}

// permit lets a group go when enough members have a node; before, they wait there.
func (g *gang) permit(r *sdk.PermitRequest) sdk.Status {
	group, members, ok := groupOf(r.Pod.Pod)
	if !ok || group.placed(r.Cluster) >= members {
		for _, w := range r.Waiting {
			if other, _, waits := groupOf(w.Pod); ok && waits && other == group {
				r.Allow(w.Pod.UID)
			}
		}
		return sdk.Status{}
	}
	// The review comes first: it ends the wait of all of them at once.
	return sdk.WaitFor(g.timeout+10*time.Second, fmt.Sprintf("gang %s: %d of %d members have a node", group.name, group.placed(r.Cluster), members))
}

// review gives up the nodes of all members of a group of which one has waited for
// too long: those that have come last would hold them for nothing.
func (g *gang) review(r *sdk.ReviewRequest) {
	late := map[group]int{}
	for _, w := range r.Waiting {
		if group, members, ok := groupOf(w.Pod); ok && w.Since >= g.timeout {
			late[group] = members
		}
	}
	for _, w := range r.Waiting {
		group, _, ok := groupOf(w.Pod)
		if members, expired := late[group]; ok && expired {
			r.Reject(w.Pod.UID, fmt.Sprintf("gang %s: %d of %d members have a node after %v", group.name, group.placed(r.Cluster), members, g.timeout))
		}
	}
}

// fellow reports whether the pod that came is of the pod's group.
func fellow(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	mine, _, ok := groupOf(pod)
	other, _, member := groupOf(e.NewPod)
	return ok && member && mine == other
}

// stranger reports whether the pod that left room is of another group: that of
// its own is what this one gave up together with it.
func stranger(_ *sdk.Cluster, pod *sdk.Pod, e *sdk.Event) bool {
	mine, _, _ := groupOf(pod)
	other, _, member := groupOf(e.OldPod)
	return !member || mine != other
}
