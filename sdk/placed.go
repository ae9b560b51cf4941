package sdk

// placed is an operation that says only that a pod of a class occupies a node now,
// which most operations are: one a decision. It has no pointers, see single.
type placed struct {
	node, class uint32
	// The name and the UID, as places in the delta.
	name, nameEnd, uid, end int
}

// readPlaced reads deltas that have no other operations, as the host encodes them,
// field by field in order, in one pass and without a call a field; it appends to list.
// stated: they say their generation. Not ok: something else is there, or the same in
// another encoding, which is for those who read all of them.
func readPlaced(data []byte, list []placed) (all []placed, generation uint64, stated, ok bool) {
	const (
		generationField, operation = 1 << 3, 3<<3 | wireBytes
		podAdd                     = 3<<3 | wireBytes
		node, pod, class           = 1 << 3, 2<<3 | wireBytes, 3 << 3
		name, uid                  = 2<<3 | wireBytes, 3<<3 | wireBytes
		long                       = 0x80 // a length of more than one byte
	)
	for at := 0; at < len(data); {
		if data[at] == generationField {
			if generation, at, ok = uvarint(data, at+1); !ok {
				return list, 0, false, false
			}
			stated = true
			continue
		}
		// Each of the lengths counts what follows it to the operation's end.
		if len(data)-at < 5 || data[at] != operation || data[at+1] >= long || data[at+2] != podAdd || data[at+3]+2 != data[at+1] || data[at+4] != node {
			return list, 0, false, false
		}
		end := at + 2 + int(data[at+1])
		if end > len(data) {
			return list, 0, false, false
		}
		var d placed
		var number uint64
		body := data[:end]
		if number, at, ok = uvarint(body, at+5); !ok || number > maxNodeIndex || end-at < 4 || body[at] != pod || body[at+1] >= long {
			return list, 0, false, false
		}
		d.node = uint32(number)
		d.end = at + 2 + int(body[at+1])
		if at += 2; d.end >= end || d.end-at < 2 || body[at] != name {
			return list, 0, false, false
		}
		d.name, d.nameEnd = at+2, at+2+int(body[at+1])
		d.uid = d.nameEnd + 2
		if d.end < d.uid || body[d.nameEnd] != uid || int(body[d.nameEnd+1]) != d.end-d.uid || body[d.end] != class {
			return list, 0, false, false
		}
		if number, at, ok = uvarint(body, d.end+1); !ok || at != end || number == 0 || number > 1<<32-1 {
			return list, 0, false, false
		}
		d.class = uint32(number)
		list = append(list, d)
	}
	return list, generation, stated, len(list) > 0
}

// uvarint reads a varint of at most nine bytes and says where it ended.
func uvarint(data []byte, at int) (v uint64, end int, ok bool) {
	for shift := 0; at < len(data) && shift < 63; shift += 7 {
		b := data[at]
		at++
		if v |= uint64(b&0x7f) << shift; b < 0x80 {
			return v, at, true
		}
	}
	return 0, 0, false
}

// addOfClass adds the pod of an operation that readPlaced read.
func (c *Cluster) addOfClass(data []byte, d *placed) error {
	pod, err := c.podOf(d.class)
	if err != nil {
		return err
	}
	text := string(data[d.name:d.end]) // the host's buffer is used again
	pod.Name, pod.UID = text[:d.nameEnd-d.name], text[d.uid-d.name:]
	if n := c.Node(d.node); n != nil {
		pod.NodeName = n.Name
	}
	return c.addPod(d.node, pod)
}
