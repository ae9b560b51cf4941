package sdk

// ChangeKind says what happened to a replica.
type ChangeKind uint8

const (
	// PodAdded: Pod occupies Node now.
	PodAdded ChangeKind = iota + 1
	// PodRemoved: Pod occupies Node no more.
	PodRemoved
	// NodeSet: Node is new, or took the place of Old, which had the same index
	// and perhaps other labels, taints or resources.
	NodeSet
	// NodeRemoved: Node is gone.
	NodeRemoved
)

// Change is one step of a replica, for Follow. Changes are complete: pods of a
// node that is set anew or removed are told of as removed from it before, and as
// added to the new one behind, so that a plugin that counts pods looks at
// PodAdded and PodRemoved alone.
//
// Labels, Taints, Capacity and Allocatable of Node, Old and Pod are what they
// were at that step; Node.Pods and the sums over them are what they are after
// the last one.
type Change struct {
	Kind ChangeKind
	Node *Node
	Old  *Node // NodeSet: what Node took the place of; nil where it is new
	Pod  *Pod  // PodAdded, PodRemoved
}

// maxChanges bounds the changes that a replica remembers: those between two
// decisions about one class. A state that is older is prepared anew.
const maxChanges = 1 << 13

// changeLog is the last changes of a replica, in order. It is empty and stays so
// where no plugin follows.
type changeLog struct {
	kept  bool
	first uint64 // position of items[0]
	items []Change
}

func (l *changeLog) add(c Change) {
	if !l.kept {
		return
	}
	if len(l.items) >= maxChanges {
		half := len(l.items) / 2
		n := copy(l.items, l.items[half:])
		clear(l.items[n:])
		l.items = l.items[:n]
		l.first += uint64(half)
	}
	l.items = append(l.items, c)
}

// forget makes every state that was prepared before too old.
func (l *changeLog) forget() {
	l.first += uint64(len(l.items)) + 1
	l.items = nil
}

func (l *changeLog) end() uint64 { return l.first + uint64(len(l.items)) }

// since returns the changes from a position on; false: too long ago.
func (l *changeLog) since(position uint64) ([]Change, bool) {
	if position < l.first {
		return nil, false
	}
	return l.items[position-l.first:], true
}
