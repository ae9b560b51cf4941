package sdk

// Column is one label of all nodes, as numbers: comparing them costs a tenth of a
// look into Node.Labels, which in a WASM module is dear. Number 0 stands for nodes
// without the label; the others stand for a value each, and stay the same as long
// as a state of Prepare is kept.
type Column struct {
	key     string
	cluster *Cluster
	ids     []uint32 // by node index; nodes beyond have no such label
	numbers map[string]uint32
	values  []string // by number; the first is none

	counts     []int32 // by number: the nodes that have it; of 0 see Count
	labelled   int     // the sum of counts
	majority   uint32  // as of
	majorityAt uint64  // Cluster.nodeSets
}

// Column returns the column of a label. The first call for a label looks at every
// node; from then on it is kept current.
func (c *Cluster) Column(label string) *Column {
	if l := c.columns[label]; l != nil {
		return l
	}
	l := &Column{key: label, cluster: c, numbers: map[string]uint32{}, values: []string{""}}
	for _, n := range c.nodes {
		if n != nil {
			l.set(n)
		}
	}
	if c.columns == nil {
		c.columns = map[string]*Column{}
	}
	c.columns[label] = l
	return l
}

// Of is the number of a node's value, also of a node that has been replaced since
// (Change.Old); 0: the node has no such label.
func (l *Column) Of(n *Node) uint32 {
	if int(n.Index) >= len(l.cluster.nodes) || l.cluster.nodes[n.Index] != n {
		return l.number(n.Labels)
	}
	if int(n.Index) < len(l.ids) {
		return l.ids[n.Index]
	}
	return 0
}

// Number is that of a value, whether or not a node has it now; 0: none had.
func (l *Column) Number(value string) uint32 { return l.numbers[value] }

// Value is what a number stands for.
func (l *Column) Value(number uint32) string { return l.values[number] }

// Len is one more than the largest number.
func (l *Column) Len() int { return len(l.values) }

// Count is how many nodes have a number; of 0 those without the label.
func (l *Column) Count(number uint32) int {
	switch {
	case number == 0:
		return l.cluster.count - l.labelled
	case int(number) < len(l.counts):
		return int(l.counts[number])
	}
	return 0
}

// Majority is the number that more than half of all nodes have; 0: there is none, or
// they have no such label.
func (l *Column) Majority() uint32 {
	if l.majorityAt != l.cluster.nodeSets {
		l.majority, l.majorityAt = 0, l.cluster.nodeSets
		for number, n := range l.counts {
			if 2*int(n) > l.cluster.count {
				l.majority = uint32(number)
			}
		}
	}
	return l.majority
}

// Nodes appends the indexes of the nodes whose number is in a set, which holds
// true for those in it. One at which there is no node may be among them.
func (l *Column) Nodes(set []bool, out []uint32) []uint32 {
	for index, number := range l.ids {
		if int(number) < len(set) && set[number] {
			out = append(out, uint32(index))
		}
	}
	if len(set) > 0 && set[0] {
		for index := len(l.ids); index < len(l.cluster.nodes); index++ {
			out = append(out, uint32(index))
		}
	}
	return out
}

// number returns that of a value, a new one for a value that is new.
func (l *Column) number(labels map[string]string) uint32 {
	value, has := labels[l.key]
	if !has {
		return 0
	}
	number, known := l.numbers[value]
	if !known {
		number = uint32(len(l.values))
		l.values = append(l.values, value)
		l.numbers[value] = number
	}
	return number
}

func (l *Column) set(n *Node) { l.put(n.Index, l.number(n.Labels)) }

// put gives the node at an index a number; 0 also where it is gone.
func (l *Column) put(index, number uint32) {
	if int(index) >= len(l.ids) {
		if number == 0 {
			return // a label that no node has takes no room
		}
		l.ids = append(l.ids, make([]uint32, int(index)+1-len(l.ids))...)
	}
	l.tally(l.ids[index], -1)
	l.tally(number, 1)
	l.ids[index] = number
}

func (l *Column) tally(number uint32, by int32) {
	if number == 0 {
		return
	}
	for int(number) >= len(l.counts) {
		l.counts = append(l.counts, 0)
	}
	l.counts[number] += by
	l.labelled += int(by)
}

// columnValues bounds the values of a column beside four for each node: nodes
// that come and go under new names would make it grow without end.
const columnValues = 4096

// maxColumns bounds the columns, which pods name: more than the classes of a host
// have at once are of classes that are gone.
const maxColumns = 1 << 16

// boundColumns gives all columns up where there are too many.
func (c *Cluster) boundColumns() {
	if len(c.columns) > maxColumns {
		c.columns, c.void = nil, true
	}
}

// setColumns takes a node into all columns. One with many values that no node has
// is given up, and with it every state, which may know its numbers.
func (c *Cluster) setColumns(n *Node) {
	for _, l := range c.columns {
		if l.set(n); len(l.values) > columnValues+4*len(c.nodes) {
			c.columns, c.void = nil, true
			return
		}
	}
}
