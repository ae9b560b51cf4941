package sdk

import "fmt"

// apply decodes a Delta (contract/v1/scheduling.proto) and applies its
// operations in order.
func (c *Cluster) apply(data []byte) error {
	list, generation, stated, ok := readPlaced(data, c.placed[:0])
	c.placed = list[:0]
	if !ok {
		return c.applyFields(data)
	}
	c.epoch++
	for k := range list {
		if err := c.addOfClass(data, &list[k]); err != nil {
			return err
		}
	}
	if stated {
		c.Generation = generation
	}
	return nil
}

func (c *Cluster) applyFields(data []byte) error {
	// reset and generation may stand behind the operations on the wire, so
	// they are looked for first.
	generation, reset := c.Generation, false
	if err := message(data, "delta", func(f *field) error {
		switch {
		case f.kind != wireVarint:
		case f.tag == 1:
			generation = f.number
		case f.tag == 2:
			reset = f.number != 0
		}
		return nil
	}); err != nil {
		return err
	}
	if reset {
		c.reset()
	}
	c.epoch++
	if err := message(data, "delta", func(f *field) error {
		if f.tag != 3 {
			return nil
		}
		return message(f.bytes, "operation", c.operation)
	}); err != nil {
		return err
	}
	c.Generation = generation
	return nil
}

func (c *Cluster) operation(f *field) error {
	switch f.tag {
	case 1:
		n, err := decodeNodeSet(f.bytes)
		if err != nil {
			return err
		}
		return c.setNode(n)
	case 2:
		c.removeNode(uint32(f.number))
	case 3:
		return c.operationPodAdd(f.bytes)
	case 4:
		var index uint32
		var uid string
		if err := message(f.bytes, "pod remove", func(f *field) error {
			switch f.tag {
			case 1:
				index = uint32(f.number)
			case 2:
				uid = f.text()
			}
			return nil
		}); err != nil {
			return err
		}
		c.removePod(index, uid)
	case 5:
		class, pod, err := decodeNumberedPod(f.bytes, "class set")
		if err != nil {
			return err
		}
		c.setClass(class, pod)
	case 6:
		c.removeClass(uint32(f.number))
	case 7:
		o, err := decodeObject(f.bytes)
		if err != nil {
			return err
		}
		c.setObject(o)
	case 8:
		var o Object
		if err := texts(f.bytes, "object key", &o.Kind, &o.Namespace, &o.Name); err != nil {
			return err
		}
		c.removeObject(o.Kind, o.Namespace, o.Name)
	}
	return nil
}

func decodeNodeSet(data []byte) (*Node, error) {
	n := &Node{}
	err := message(data, "node set", func(f *field) error {
		switch f.tag {
		case 1:
			n.Index = uint32(f.number)
		case 2:
			return decodeNode(f.bytes, n)
		}
		return nil
	})
	return n, err
}

// decodeNumberedPod decodes a ClassSet.
func decodeNumberedPod(data []byte, what string) (uint32, *Pod, error) {
	var number uint32
	pod := &Pod{}
	err := message(data, what, func(f *field) error {
		switch f.tag {
		case 1:
			number = uint32(f.number)
		case 2:
			return decodePod(f.bytes, pod)
		}
		return nil
	})
	return number, pod, err
}

// operationPodAdd decodes a PodAdd. The pod of a class shares all that it has with
// the class's, so that what a decision costs does not grow with the pod.
func (c *Cluster) operationPodAdd(data []byte) error {
	var index, class uint32
	var encoded []byte
	w, f := wire{data: data}, field{}
	for w.next(&f) {
		switch f.tag {
		case 1:
			index = uint32(f.number)
		case 2:
			encoded = f.bytes
		case 3:
			class = uint32(f.number)
		}
	}
	if w.bad {
		return fmt.Errorf("%w: pod add", ErrDelta)
	}
	if class == 0 {
		pod, err := c.shapes.pod(encoded)
		if err != nil {
			return err
		}
		return c.addPod(index, pod)
	}
	pod, err := c.podOf(class)
	if err != nil {
		return err
	}
	if err := decodeOwn(encoded, pod); err != nil {
		return err
	}
	if n := c.Node(index); n != nil {
		pod.NodeName = n.Name
	}
	return c.addPod(index, pod)
}

// podOf is a pod that has all that a class says.
func (c *Cluster) podOf(class uint32) (*Pod, error) {
	of := c.classes[class]
	if of == nil {
		return nil, fmt.Errorf("%w: a pod of class %d, which is not there", ErrDelta, class)
	}
	pod := *of
	return &pod, nil
}
