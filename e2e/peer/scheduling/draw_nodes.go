package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// Families about a node's own properties.

func unschedulable(d *draw) {
	d.nodes(5, 20)
	for _, n := range d.c.Nodes {
		if n.Spec.Unschedulable = d.chance(40); n.Spec.Unschedulable && d.chance(70) || d.chance(5) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule})
		}
	}
	d.ask(func(p *v1.Pod) {
		for range d.IntN(3) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, pick(d,
				v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists},
				v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
				v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
				v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpEqual},
				v1.Toleration{Key: v1.TaintNodeUnschedulable},
				v1.Toleration{Key: v1.TaintNodeUnschedulable, Value: "true"},
				v1.Toleration{Key: "other", Operator: v1.TolerationOpExists},
				v1.Toleration{Operator: v1.TolerationOpExists},
			))
		}
	})
}

func (d *draw) taintNodes(share int) {
	effects := []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}
	for _, n := range d.c.Nodes {
		for range d.IntN(4) {
			if d.chance(share) {
				n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: pick(d, "dedicated", "gpu", "special"), Value: pick(d, "", "a", "b"), Effect: pick(d, effects...)})
			}
		}
	}
}

func (d *draw) tolerate(p *v1.Pod, most int) {
	for range d.IntN(most + 1) {
		t := v1.Toleration{Key: pick(d, "dedicated", "gpu", "special", "none"), Effect: pick(d, "", v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)}
		switch d.IntN(4) {
		case 0:
			t.Operator = v1.TolerationOpExists
			if d.chance(20) {
				t.Key = ""
			}
		case 1:
			t.Value = pick(d, "", "a", "b")
		default:
			t.Operator, t.Value = v1.TolerationOpEqual, pick(d, "", "a", "b")
		}
		p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	}
}

func taints(d *draw) {
	d.nodes(5, 30)
	d.taintNodes(55)
	d.ask(func(p *v1.Pod) { d.tolerate(p, 6) })
}

func (d *draw) requirement() v1.NodeSelectorRequirement {
	switch d.IntN(8) {
	case 0:
		return v1.NodeSelectorRequirement{Key: "cores", Operator: pick(d, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt), Values: []string{fmt.Sprint(d.IntN(33))}}
	case 1:
		return v1.NodeSelectorRequirement{Key: pick(d, "disk", "rack", "cores", zone), Operator: pick(d, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist)}
	case 2:
		return v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpGt, Values: []string{"4"}} // not a number
	case 3:
		return v1.NodeSelectorRequirement{Key: zone, Operator: pick(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: some(d, 1+d.IntN(2), "zone-0", "zone-1", "zone-2")}
	}
	return v1.NodeSelectorRequirement{Key: "disk", Operator: pick(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: some(d, 1+d.IntN(2), "ssd", "hdd", "nvme")}
}

func (d *draw) nodeTerm(fields int) v1.NodeSelectorTerm {
	t := v1.NodeSelectorTerm{}
	for range d.IntN(3) {
		t.MatchExpressions = append(t.MatchExpressions, d.requirement())
	}
	if d.chance(fields) {
		t.MatchFields = append(t.MatchFields, v1.NodeSelectorRequirement{
			Key: "metadata.name", Operator: pick(d, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn), Values: []string{fmt.Sprintf("node-%02d", d.IntN(len(d.c.Nodes)+2))},
		})
	}
	return t
}

func (d *draw) affinityOf(p *v1.Pod) {
	if d.chance(35) {
		p.Spec.NodeSelector = map[string]string{"disk": pick(d, "ssd", "hdd", "nvme", "tape")}
	}
	if d.chance(20) {
		return
	}
	a := &v1.NodeAffinity{}
	if d.chance(60) {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{}
		for range 1 + d.IntN(3) {
			a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = append(a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms, d.nodeTerm(25))
		}
	}
	for range d.IntN(4) {
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: int32(1 + d.IntN(100)), Preference: d.nodeTerm(5)})
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	p.Spec.Affinity.NodeAffinity = a
}

func nodeAffinity(d *draw) {
	d.nodes(5, 30)
	if d.chance(25) {
		added := &v1.NodeAffinity{}
		if d.chance(60) {
			added.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "disk", Operator: v1.NodeSelectorOpNotIn, Values: []string{"hdd"}}}}}}
		}
		for range d.IntN(3) {
			t := d.nodeTerm(0)
			if len(t.MatchExpressions) > 0 && t.MatchExpressions[0].Key != "disk" {
				added.PreferredDuringSchedulingIgnoredDuringExecution = append(added.PreferredDuringSchedulingIgnoredDuringExecution,
					v1.PreferredSchedulingTerm{Weight: int32(1 + d.IntN(50)), Preference: t})
			}
		}
		d.configure("NodeAffinity", map[string]any{"addedAffinity": added})
	}
	d.ask(d.affinityOf)
}

func (d *draw) ports(p *v1.Pod, most int) {
	for range d.IntN(most + 1) {
		port := v1.ContainerPort{ContainerPort: 80, HostPort: int32(8000 + d.IntN(5)), Protocol: pick(d, v1.ProtocolTCP, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)}
		port.HostIP = pick(d, "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1")
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, port)
	}
	if d.chance(10) {
		always := v1.ContainerRestartPolicyAlways
		init := v1.Container{Name: "i0", Image: "registry.example/init:v1", Ports: []v1.ContainerPort{{ContainerPort: 1, HostPort: int32(8000 + d.IntN(5)), Protocol: v1.ProtocolTCP}}}
		if d.chance(60) {
			init.RestartPolicy = &always
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, init)
	}
}

func hostPorts(d *draw) {
	d.nodes(5, 15)
	d.occupy(3, func(p *v1.Pod) { d.ports(p, 2) })
	d.ask(func(p *v1.Pod) { d.ports(p, 3) })
}

// imageNames are what pods run; nodes know some of them under several names.
var imageNames = []string{"registry.example/app:v1", "registry.example/app:v2", "docker.io/library/nginx:latest", "docker.io/library/big:1", "registry.example:5000/tool:latest", "quay.io/x/y@sha256:0123456789012345678901234567890123456789012345678901234567890123"}

func (d *draw) imagesOnNodes() {
	sizes := map[string]int64{}
	for _, name := range imageNames {
		sizes[name] = pick(d, int64(1<<20), 20<<20, 60<<20, 300<<20, 900<<20, 2<<30) + d.Int64N(1<<20)
	}
	for _, n := range d.c.Nodes {
		for _, name := range imageNames {
			if d.chance(40) {
				image := v1.ContainerImage{Names: []string{name}, SizeBytes: sizes[name]}
				if d.chance(20) {
					image.Names = append(image.Names, name+"-alias")
				}
				if d.chance(10) {
					image.SizeBytes += 5 << 20 // a node of its own mind
				}
				n.Status.Images = append(n.Status.Images, image)
			}
		}
	}
}

func (d *draw) runImages(p *v1.Pod) {
	p.Spec.Containers = nil
	for i := range 1 + d.IntN(3) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i), Image: pick(d, append([]string{
			"registry.example/app", "docker.io/library/nginx", "registry.example:5000/tool", "docker.io/library/big:1-alias", "unknown:v9"}, imageNames...)...)})
	}
	if d.chance(30) {
		p.Spec.InitContainers = []v1.Container{{Name: "i0", Image: pick(d, imageNames...)}}
	}
	if d.chance(15) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "oci", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: pick(d, imageNames...)}}})
	}
}

func images(d *draw) {
	d.nodes(5, 20)
	d.imagesOnNodes()
	d.ask(d.runImages)
}
