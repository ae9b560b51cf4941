package main

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Families about other pods.

func (d *draw) podTerm() v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: pick(d, hostname, zone, zone, region, "rack")}
	if d.chance(25) {
		t.Namespaces = some(d, 1+d.IntN(2), "blue", "green", "red")
	}
	if d.chance(25) {
		t.NamespaceSelector = pick(d, &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(d, "one", "two")}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}})
	}
	// The API merges these keys into the selector when it takes the pod in; so does
	// whoever draws one that never goes through the API.
	if t.LabelSelector != nil && d.chance(10) {
		t.MatchLabelKeys = []string{"version"}
	}
	return t
}

// merged adds what match label keys stand for to the selectors, as the API does.
func merged(p *v1.Pod, terms []v1.PodAffinityTerm) {
	for i := range terms {
		for _, key := range terms[i].MatchLabelKeys {
			if value, ok := p.Labels[key]; ok {
				s := terms[i].LabelSelector.DeepCopy()
				s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
				terms[i].LabelSelector = s
			}
		}
	}
}

func (d *draw) podAffinityOf(p *v1.Pod, percent int) {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	required := func() (out []v1.PodAffinityTerm) {
		for range 1 + d.IntN(2) {
			out = append(out, d.podTerm())
		}
		merged(p, out)
		return out
	}
	preferred := func() (out []v1.WeightedPodAffinityTerm) {
		for range 1 + d.IntN(3) {
			terms := []v1.PodAffinityTerm{d.podTerm()}
			merged(p, terms)
			out = append(out, v1.WeightedPodAffinityTerm{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: terms[0]})
		}
		return out
	}
	if d.chance(percent) {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
		if d.chance(50) {
			p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required()
		}
		if d.chance(60) {
			p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred()
		}
	}
	if d.chance(percent) {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
		if d.chance(45) {
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required()
		}
		if d.chance(60) {
			p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = preferred()
		}
	}
}

func podAffinity(d *draw) {
	d.nodes(5, 20)
	d.namespaces()
	if d.chance(30) {
		d.configure("InterPodAffinity", map[string]any{"hardPodAffinityWeight": d.IntN(101), "ignorePreferredTermsOfExistingPods": d.chance(50)})
	}
	share := pick(d, 0, 10, 40)
	d.occupy(3, func(p *v1.Pod) { d.podAffinityOf(p, share) })
	d.ask(func(p *v1.Pod) { d.podAffinityOf(p, 60) })
}

func (d *draw) constraint(action v1.UnsatisfiableConstraintAction) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{MaxSkew: int32(1 + d.IntN(3)), TopologyKey: pick(d, hostname, zone, zone, region, "rack"), WhenUnsatisfiable: action, LabelSelector: d.selector()}
	if action == v1.DoNotSchedule && d.chance(25) {
		n := int32(1 + d.IntN(5))
		c.MinDomains = &n
	}
	honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
	if d.chance(30) {
		c.NodeAffinityPolicy = pick(d, &honor, &ignore)
	}
	if d.chance(30) {
		c.NodeTaintsPolicy = pick(d, &honor, &ignore)
	}
	if c.LabelSelector != nil && d.chance(15) {
		c.MatchLabelKeys = []string{"version"}
	}
	return c
}

// constrain adds spread constraints, no two of one key and action.
func (d *draw) constrain(p *v1.Pod, most int) {
	have := map[string]bool{}
	for range d.IntN(most + 1) {
		c := d.constraint(pick(d, v1.DoNotSchedule, v1.ScheduleAnyway))
		if key := c.TopologyKey + string(c.WhenUnsatisfiable); !have[key] {
			have[key] = true
			// As the API does since MatchLabelKeysInPodTopologySpreadSelectorMerge.
			for _, label := range c.MatchLabelKeys {
				if value, ok := p.Labels[label]; ok {
					c.LabelSelector.MatchExpressions = append(c.LabelSelector.MatchExpressions, metav1.LabelSelectorRequirement{Key: label, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
				}
			}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
}

// owners adds services and controllers that select pods.
func (d *draw) owners() {
	for i, app := range []string{"web", "db", "cache"} {
		meta := metav1.ObjectMeta{Namespace: pick(d, "blue", "green", "red"), Name: "of-" + app, UID: types.UID(fmt.Sprint("uid-owner-", i))}
		labels := map[string]string{"app": app}
		switch d.IntN(5) {
		case 0:
			d.add(&v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{Selector: labels}})
		case 1:
			d.add(&v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: labels}})
		case 2:
			d.add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}})
		case 3:
			d.add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}})
		}
	}
}

// owned makes a controller of the cluster the pod's.
func (d *draw) owned(p *v1.Pod) {
	yes := true
	for _, o := range d.c.Objects {
		meta, ok := o.(metav1.Object)
		kind := o.GetObjectKind().GroupVersionKind()
		if !ok || meta.GetNamespace() != p.Namespace || kind.Kind == "Service" || meta.GetName() != "of-"+p.Labels["app"] || !d.chance(70) {
			continue
		}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: meta.GetName(), UID: meta.GetUID(), Controller: &yes}}
	}
}

func spread(d *draw) {
	d.nodes(5, 30)
	d.taintNodes(pick(d, 0, 25))
	d.owners()
	switch d.IntN(5) {
	case 0:
		list := []any{}
		for _, c := range some(d, 2, d.constraint(v1.ScheduleAnyway), d.constraint(v1.DoNotSchedule)) {
			list = append(list, map[string]any{"maxSkew": c.MaxSkew, "topologyKey": c.TopologyKey, "whenUnsatisfiable": c.WhenUnsatisfiable})
		}
		d.configure("PodTopologySpread", map[string]any{"defaultConstraints": list, "defaultingType": "List"})
	case 1:
		d.configure("PodTopologySpread", map[string]any{"defaultConstraints": []any{}, "defaultingType": "List"})
	}
	d.occupy(4, d.owned)
	d.ask(func(p *v1.Pod) {
		d.owned(p)
		d.constrain(p, 4)
		d.tolerate(p, 2)
		if d.chance(30) {
			d.affinityOf(p)
		}
	})
}
