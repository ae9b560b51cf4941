package sdk

func decodePodAffinity(data []byte) (*PodAffinity, error) {
	a := &PodAffinity{}
	err := message(data, "pod affinity", func(f *field) error {
		var t PodAffinityTerm
		switch f.tag {
		case 1:
			err := decodePodAffinityTerm(f.bytes, &t)
			a.Required = append(a.Required, t)
			return err
		case 2:
			err := decodePodAffinityTerm(f.bytes, &t)
			a.Preferred = append(a.Preferred, t)
			return err
		}
		return nil
	})
	return a, err
}

func decodePodAffinityTerm(data []byte, t *PodAffinityTerm) error {
	var selector, namespaces optionalSelector
	err := message(data, "pod affinity term", func(f *field) (err error) {
		switch f.tag {
		case 1:
			selector.has = f.number != 0
		case 2:
			err = decodeSelector(f.bytes, &selector.Selector)
		case 3:
			t.Namespaces = append(t.Namespaces, f.text())
		case 4:
			namespaces.has = f.number != 0
		case 5:
			err = decodeSelector(f.bytes, &namespaces.Selector)
		case 6:
			t.TopologyKey = f.text()
		case 7:
			t.Weight = int32(f.number)
		}
		return err
	})
	t.Selector, t.NamespaceSelector = selector.or(), namespaces.or()
	return err
}

// optionalSelector tells an empty selector from none.
type optionalSelector struct {
	Selector
	has bool
}

func (s optionalSelector) or() *Selector {
	if !s.has {
		return nil
	}
	return &s.Selector
}

func decodeSpread(data []byte, t *TopologySpreadConstraint) error {
	var selector optionalSelector
	err := message(data, "topology spread constraint", func(f *field) (err error) {
		switch f.tag {
		case 1:
			t.MaxSkew = int32(f.number)
		case 2:
			t.TopologyKey = f.text()
		case 3:
			t.WhenUnsatisfiable = f.text()
		case 4:
			selector.has = f.number != 0
		case 5:
			err = decodeSelector(f.bytes, &selector.Selector)
		case 6:
			t.MinDomains = int32(f.number)
		case 7:
			t.NodeAffinityPolicy = f.text()
		case 8:
			t.NodeTaintsPolicy = f.text()
		case 9:
			t.MatchLabelKeys = append(t.MatchLabelKeys, f.text())
		}
		return err
	})
	t.Selector = selector.or()
	return err
}
