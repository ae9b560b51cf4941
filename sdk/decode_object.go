package sdk

func decodeObject(data []byte) (*Object, error) {
	o := &Object{}
	var selector optionalSelector
	err := message(data, "object", func(f *field) (err error) {
		switch f.tag {
		case 1:
			err = texts(f.bytes, "object key", &o.Kind, &o.Namespace, &o.Name)
		case 2:
			o.Labels, err = stringEntry(o.Labels, f)
		case 3:
			selector.has = f.number != 0
		case 4:
			err = decodeSelector(f.bytes, &selector.Selector)
		case 5:
			o.VolumeName = f.text()
		case 6:
			o.Volume = &Volume{}
			err = decodeVolume(f.bytes, o.Volume)
		case 7:
			o.NodeAffinity, err = decodeNodeAffinity(f.bytes)
		case 8:
			o.UID = f.text()
		case 9:
			o.Annotations, err = stringEntry(o.Annotations, f)
		case 10:
			o.Terminating = f.number != 0
		case 11:
			o.Storage, err = decodeStorage(f.bytes)
		case 12:
			o.StorageClass, err = decodeStorageClass(f.bytes)
		case 13:
			var d Driver
			err = decodeDriver(f.bytes, &d)
			o.Drivers = append(o.Drivers, d)
		case 14:
			o.CSIDriver = &CSIDriver{}
			err = flags(f.bytes, "CSI driver", &o.CSIDriver.StorageCapacity, &o.CSIDriver.AttachRequired, &o.CSIDriver.PreventPodSchedulingIfMissing)
		case 15:
			a := &Attachment{}
			o.Attachment = a
			err = message(f.bytes, "attachment", func(f *field) error {
				if !f.into(&a.Attacher, &a.NodeName, &a.PersistentVolumeName) && f.tag == 4 {
					a.Attached = f.number != 0
				}
				return nil
			})
		case 16:
			b := &DisruptionBudget{}
			o.DisruptionBudget = b
			err = message(f.bytes, "disruption budget", func(f *field) error {
				switch f.tag {
				case 1:
					b.DisruptionsAllowed = int32(f.number)
				case 2:
					b.DisruptedPods = append(b.DisruptedPods, f.text())
				}
				return nil
			})
		case 17:
			o.MigratedNodeAffinity, err = decodeNodeAffinity(f.bytes)
		}
		return err
	})
	o.Selector = selector.or()
	return o, err
}

// flags decodes a message whose fields are booleans, numbered from 1.
func flags(data []byte, what string, to ...*bool) error {
	return message(data, what, func(f *field) error {
		if int(f.tag) <= len(to) {
			*to[f.tag-1] = f.number != 0
		}
		return nil
	})
}

func decodeSelector(data []byte, s *Selector) error {
	return message(data, "selector", func(f *field) (err error) {
		switch f.tag {
		case 1:
			s.MatchLabels, err = stringEntry(s.MatchLabels, f)
		case 2:
			s.MatchExpressions, err = appendRequirement(s.MatchExpressions, f.bytes)
		}
		return err
	})
}

func decodeStorage(data []byte) (*Storage, error) {
	s := &Storage{}
	var selector optionalSelector
	err := message(data, "storage", func(f *field) (err error) {
		switch f.tag {
		case 1:
			s.ClassName = f.text()
		case 2:
			s.HasClassName = f.number != 0
		case 3:
			s.AccessModes = append(s.AccessModes, f.text())
		case 4:
			s.Bytes = int64(f.number)
		case 5:
			s.VolumeMode = f.text()
		case 6:
			s.Phase = f.text()
		case 7:
			err = decodeSelector(f.bytes, &selector.Selector)
		case 8:
			selector.has = f.number != 0
		case 9:
			s.Claim = &ClaimReference{}
			err = texts(f.bytes, "claim reference", &s.Claim.Namespace, &s.Claim.Name, &s.Claim.UID)
		case 10:
			s.Owner = &OwnerReference{}
			err = decodeOwner(f.bytes, s.Owner)
		case 11:
			s.MaximumVolumeBytes = int64(f.number)
		case 12:
			s.VolumeAttributesClass = f.text()
		}
		return err
	})
	s.Selector = selector.or()
	return s, err
}

func decodeStorageClass(data []byte) (*StorageClass, error) {
	c := &StorageClass{}
	err := message(data, "storage class", func(f *field) error {
		if f.tag == 4 {
			c.Driver = f.text()
		}
		if f.into(&c.Provisioner, &c.VolumeBindingMode) || f.tag != 3 {
			return nil
		}
		var t NodeSelectorTerm
		err := decodeTerm(f.bytes, &t)
		c.AllowedTopologies = append(c.AllowedTopologies, t)
		return err
	})
	return c, err
}

func decodeDriver(data []byte, d *Driver) error {
	return message(data, "driver", func(f *field) error {
		if f.into(&d.Name, &d.NodeID) {
			return nil
		}
		switch f.tag {
		case 3:
			d.HasLimit = f.number != 0
		case 4:
			d.Limit = int32(f.number)
		case 5:
			d.TopologyKeys = append(d.TopologyKeys, f.text())
		}
		return nil
	})
}
