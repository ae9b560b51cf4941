package sdk

// placed is a delta that says only that a pod of a class occupies a node now, which
// most deltas are: one a decision.
type placed struct {
	generation  uint64
	node, class uint32
	text        []byte // name and UID, and two bytes between them
	name        int    // so much of text is the name
}

// readPlaced reads such a delta as the host encodes it, field by field in order, in
// one pass and without a call a field. Not ok: it is another delta, or the same in
// another encoding, which is for those who read all of them.
func readPlaced(data []byte) (d placed, ok bool) {
	const (
		generation, operation = 1 << 3, 3<<3 | wireBytes
		podAdd                = 3<<3 | wireBytes
		node, pod, class      = 1 << 3, 2<<3 | wireBytes, 3 << 3
		name, uid             = 2<<3 | wireBytes, 3<<3 | wireBytes
		long                  = 0x80 // a length of more than one byte
	)
	at, ok := 0, false
	if len(data) == 0 || data[0] != generation {
		return d, false
	}
	if d.generation, at, ok = uvarint(data, 1); !ok {
		return d, false
	}
	// Each of the next lengths counts what follows it to the end.
	if len(data)-at < 4 || data[at] != operation || data[at+1] >= long || int(data[at+1]) != len(data)-at-2 ||
		data[at+2] != podAdd || data[at+3] >= long || int(data[at+3]) != len(data)-at-4 {
		return d, false
	}
	if at += 4; at >= len(data) || data[at] != node {
		return d, false
	}
	var number uint64
	if number, at, ok = uvarint(data, at+1); !ok || number > maxNodeIndex || len(data)-at < 4 || data[at] != pod || data[at+1] >= long {
		return d, false
	}
	d.node = uint32(number)
	end := at + 2 + int(data[at+1])
	if at += 2; end >= len(data) || end-at < 2 || data[at] != name {
		return d, false
	}
	d.name = int(data[at+1])
	if at += 2; end-at < d.name+2 || data[at+d.name] != uid || int(data[at+d.name+1]) != end-at-d.name-2 {
		return d, false
	}
	d.text = data[at:end]
	if data[end] != class {
		return d, false
	}
	if number, at, ok = uvarint(data, end+1); !ok || at != len(data) || number == 0 || number > 1<<32-1 {
		return d, false
	}
	d.class = uint32(number)
	return d, true
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

// addOfClass adds the pod of a delta that readPlaced read.
func (c *Cluster) addOfClass(d *placed) error {
	pod, err := c.podOf(d.class)
	if err != nil {
		return err
	}
	text := string(d.text) // the host's buffer is used again
	pod.Name, pod.UID = text[:d.name], text[d.name+2:]
	if n := c.Node(d.node); n != nil {
		pod.NodeName = n.Name
	}
	return c.addPod(d.node, pod)
}
