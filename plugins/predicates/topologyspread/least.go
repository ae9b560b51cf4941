package topologyspread

// least knows the smallest of many small numbers, of which one at a time changes
// by one: how many there are of each.
type least struct {
	domains int
	value   int // the smallest, where there is any
	of      []int32
}

func (l *least) add(n int64) {
	for int64(len(l.of)) <= n {
		l.of = append(l.of, 0)
	}
	l.of[n]++
	if l.domains++; l.domains == 1 || int(n) < l.value {
		l.value = int(n)
	}
}

func (l *least) remove(n int64) {
	l.of[n]--
	l.domains--
	l.settle()
}

func (l *least) move(from, to int64) {
	l.add(to)
	l.remove(from)
}

// settle looks for the smallest from the last one on.
func (l *least) settle() {
	for l.domains > 0 && l.of[l.value] == 0 {
		l.value++
	}
}
