package snapshot

// Touch is a change of a node: of the object, or of the pods on it alone.
type Touch struct {
	Node      uint32
	Object    bool
	IgnoredBy *Unaffected // plugins that ignore the pod which came or went; nil: it may concern all
}

// ChangeLog remembers which nodes were touched, in order. Positions only grow;
// old ones fall out, and who reads from before them starts afresh.
type ChangeLog struct {
	first uint64 // position of entries[0]
	Items []Touch
}

const ChangeLogLimit = 1 << 15

func (l *ChangeLog) Add(t Touch) {
	if len(l.Items) >= ChangeLogLimit {
		half := len(l.Items) / 2
		l.Items = append(l.Items[:0], l.Items[half:]...)
		l.first += uint64(half)
	}
	l.Items = append(l.Items, t)
}

func (l *ChangeLog) End() uint64 { return l.first + uint64(len(l.Items)) }

// Since returns the changes from a position on; false: too long ago.
func (l *ChangeLog) Since(position uint64) ([]Touch, bool) {
	if position < l.first {
		return nil, false
	}
	return l.Items[position-l.first:], true
}
