package sdk

// The decoders below follow contract/v1/scheduling.proto field by field.
// Unknown fields are skipped: a newer host may send more.

func decodeNode(data []byte, n *Node) error {
	return message(data, "node", func(f *field) (err error) {
		switch f.tag {
		case 1:
			n.Name = f.text()
		case 2:
			n.Labels, err = stringEntry(n.Labels, f)
		case 3:
			n.Annotations, err = stringEntry(n.Annotations, f)
		case 4:
			n.Unschedulable = f.number != 0
		case 5:
			var t Taint
			err = texts(f.bytes, "taint", &t.Key, &t.Value, &t.Effect)
			n.Taints = append(n.Taints, t)
		case 6:
			err = decodeResources(f.bytes, &n.Capacity)
		case 7:
			err = decodeResources(f.bytes, &n.Allocatable)
		case 8:
			var i Image
			err = message(f.bytes, "image", func(f *field) error {
				switch f.tag {
				case 1:
					i.Names = append(i.Names, f.text())
				case 2:
					i.SizeBytes = int64(f.number)
				}
				return nil
			})
			n.Images = append(n.Images, i)
		case 9:
			n.UID = f.text()
		}
		return err
	})
}

func decodeResources(data []byte, r *Resources) error {
	return message(data, "resources", func(f *field) (err error) {
		switch f.tag {
		case 1:
			r.MilliCPU = int64(f.number)
		case 2:
			r.Memory = int64(f.number)
		case 3:
			r.EphemeralStorage = int64(f.number)
		case 4:
			r.Pods = int64(f.number)
		case 5:
			r.Scalar, err = numberEntry(r.Scalar, f)
		}
		return err
	})
}

func decodePod(data []byte, p *Pod) error {
	return message(data, "pod", func(f *field) (err error) {
		switch f.tag {
		case 1:
			p.Namespace = f.text()
		case 2:
			p.Name = f.text()
		case 3:
			p.UID = f.text()
		case 4:
			p.Labels, err = stringEntry(p.Labels, f)
		case 5:
			p.Annotations, err = stringEntry(p.Annotations, f)
		case 6:
			p.NodeName = f.text()
		case 7:
			p.SchedulerName = f.text()
		case 8:
			p.Priority = int32(f.number)
		case 9:
			p.NodeSelector, err = stringEntry(p.NodeSelector, f)
		case 10:
			p.NodeAffinity, err = decodeNodeAffinity(f.bytes)
		case 11:
			var t Toleration
			err = texts(f.bytes, "toleration", &t.Key, &t.Operator, &t.Value, &t.Effect)
			p.Tolerations = append(p.Tolerations, t)
		case 12:
			p.Containers, err = appendContainer(p.Containers, f.bytes)
		case 13:
			p.InitContainers, err = appendContainer(p.InitContainers, f.bytes)
		case 14:
			var h HostPort
			err = message(f.bytes, "host port", func(f *field) error {
				switch f.tag {
				case 1:
					h.Port = int32(f.number)
				case 2:
					h.Protocol = f.text()
				case 3:
					h.HostIP = f.text()
				}
				return nil
			})
			p.HostPorts = append(p.HostPorts, h)
		case 15:
			var v Volume
			err = decodeVolume(f.bytes, &v)
			p.Volumes = append(p.Volumes, v)
		case 16:
			err = decodeResources(f.bytes, &p.Requests)
		case 17:
			p.NonZeroMilliCPU = int64(f.number)
		case 18:
			p.NonZeroMemory = int64(f.number)
		case 19:
			var o OwnerReference
			err = decodeOwner(f.bytes, &o)
			p.Owners = append(p.Owners, o)
		case 20:
			p.Terminating = f.number != 0
		case 21:
			p.StartTimeUnix = int64(f.number)
		case 22:
			p.PodAffinity, err = decodePodAffinity(f.bytes)
		case 23:
			p.PodAntiAffinity, err = decodePodAffinity(f.bytes)
		case 24:
			var t TopologySpreadConstraint
			err = decodeSpread(f.bytes, &t)
			p.TopologySpread = append(p.TopologySpread, t)
		case 25:
			p.SchedulingGates = append(p.SchedulingGates, f.text())
		case 26:
			p.PreemptionPolicy = f.text()
		case 27:
			p.ResourceClaims = append(p.ResourceClaims, f.text())
		case 28:
			p.NominatedNodeName = f.text()
		}
		return err
	})
}

func appendContainer(list []Container, data []byte) ([]Container, error) {
	var c Container
	err := texts(data, "container", &c.Name, &c.Image)
	return append(list, c), err
}

func decodeVolume(data []byte, v *Volume) error {
	return message(data, "volume", func(f *field) error {
		if f.into(&v.Name, &v.Type, &v.ID) {
			return nil
		}
		switch f.tag {
		case 4:
			v.ReadOnly = f.number != 0
		case 5:
			v.Monitors = append(v.Monitors, f.text())
		case 6:
			v.InTreePlugin = f.text()
		case 7:
			v.Driver = f.text()
		case 8:
			v.Handle = f.text()
		}
		return nil
	})
}

func decodeOwner(data []byte, o *OwnerReference) error {
	return message(data, "owner reference", func(f *field) error {
		if !f.into(&o.APIVersion, &o.Kind, &o.Name, &o.UID) && f.tag == 5 {
			o.Controller = f.number != 0
		}
		return nil
	})
}

func decodeNodeAffinity(data []byte) (*NodeAffinity, error) {
	a := &NodeAffinity{}
	err := message(data, "node affinity", func(f *field) error {
		switch f.tag {
		case 1:
			a.HasRequired = f.number != 0
		case 2:
			var t NodeSelectorTerm
			if err := decodeTerm(f.bytes, &t); err != nil {
				return err
			}
			a.Required = append(a.Required, t)
		case 3:
			var p PreferredTerm
			if err := message(f.bytes, "preferred term", func(f *field) error {
				switch f.tag {
				case 1:
					p.Weight = int32(f.number)
				case 2:
					return decodeTerm(f.bytes, &p.Term)
				}
				return nil
			}); err != nil {
				return err
			}
			a.Preferred = append(a.Preferred, p)
		}
		return nil
	})
	return a, err
}

func decodeTerm(data []byte, t *NodeSelectorTerm) error {
	return message(data, "node selector term", func(f *field) (err error) {
		switch f.tag {
		case 1:
			t.MatchExpressions, err = appendRequirement(t.MatchExpressions, f.bytes)
		case 2:
			t.MatchFields, err = appendRequirement(t.MatchFields, f.bytes)
		}
		return err
	})
}

func appendRequirement(list []Requirement, data []byte) ([]Requirement, error) {
	var r Requirement
	err := message(data, "requirement", func(f *field) error {
		if !f.into(&r.Key, &r.Operator) && f.tag == 3 {
			r.Values = append(r.Values, f.text())
		}
		return nil
	})
	return append(list, r), err
}
