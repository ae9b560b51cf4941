package scheduler

// touch is a change of a node: of the object, or of the pods on it alone.
type touch struct {
	node   uint32
	object bool
	by     *unaffected // plugins that ignore the pod which came or went; nil: it may concern all
}

// changeLog remembers which nodes were touched, in order. Positions only grow;
// old ones fall out, and who reads from before them starts afresh.
type changeLog struct {
	first uint64 // position of entries[0]
	items []touch
}

const changeLogLimit = 1 << 15

func (l *changeLog) add(t touch) {
	if len(l.items) >= changeLogLimit {
		half := len(l.items) / 2
		l.items = append(l.items[:0], l.items[half:]...)
		l.first += uint64(half)
	}
	l.items = append(l.items, t)
}

func (l *changeLog) end() uint64 { return l.first + uint64(len(l.items)) }

// since returns the changes from a position on; false: too long ago.
func (l *changeLog) since(position uint64) ([]touch, bool) {
	if position < l.first {
		return nil, false
	}
	return l.items[position-l.first:], true
}
