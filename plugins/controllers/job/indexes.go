package job

import (
	"slices"
	"strconv"
	"strings"
)

// span is a run of indexes, both ends included.
type span struct{ first, last int }

// indexes is a set of indexes as the status writes it: runs in ascending order
// with a gap between any two.
type indexes []span

// parseIndexes reads such as "1,3-5" and leaves out what is not below
// completions, not a run, or not in order: the status may hold anything.
func parseIndexes(s string, completions int) indexes {
	if s == "" {
		return nil
	}
	var set indexes
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRun := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil || first < 0 {
			continue
		}
		last := first
		if isRun {
			if last, err = strconv.Atoi(to); err != nil {
				continue
			}
		}
		last = min(last, completions-1)
		if n := len(set); n > 0 {
			first = max(first, set[n-1].last+1)
		}
		if first <= last {
			set = set.append(span{first, last})
		}
	}
	return set
}

// append adds a run that begins no earlier than the last one.
func (x indexes) append(s span) indexes {
	if n := len(x); n > 0 && s.first <= x[n-1].last+1 {
		x[n-1].last = max(x[n-1].last, s.last)
		return x
	}
	return append(x, s)
}

// union returns what is in either.
func (x indexes) union(y indexes) indexes {
	all := make(indexes, 0, len(x)+len(y))
	for len(x) > 0 || len(y) > 0 {
		if len(y) == 0 || len(x) > 0 && x[0].first < y[0].first {
			all, x = all.append(x[0]), x[1:]
		} else {
			all, y = all.append(y[0]), y[1:]
		}
	}
	return all
}

// with returns x and the numbers, which may be in any order and repeat.
func (x indexes) with(numbers []int) indexes {
	if len(numbers) == 0 {
		return x
	}
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	var set indexes
	for _, n := range sorted {
		set = set.append(span{n, n})
	}
	return x.union(set)
}

// total is how many indexes there are.
func (x indexes) total() int {
	n := 0
	for _, s := range x {
		n += s.last - s.first + 1
	}
	return n
}

func (x indexes) has(i int) bool {
	at, _ := slices.BinarySearchFunc(x, i, func(s span, i int) int { return s.last - i })
	return at < len(x) && x[at].first <= i
}

// shared is how many indexes are in both.
func (x indexes) shared(y indexes) int {
	n := 0
	for len(x) > 0 && len(y) > 0 {
		n += max(0, min(x[0].last, y[0].last)-max(x[0].first, y[0].first)+1)
		switch {
		case x[0].last < y[0].last:
			x = x[1:]
		case x[0].last > y[0].last:
			y = y[1:]
		default:
			x, y = x[1:], y[1:]
		}
	}
	return n
}

// firstMissing returns up to n indexes below completions that are not in x.
func (x indexes) firstMissing(n, completions int) []int {
	var missing []int
	next := 0
	for _, s := range append(slices.Clip(x), span{completions, completions}) {
		for ; next < min(s.first, completions) && len(missing) < n; next++ {
			missing = append(missing, next)
		}
		next = max(next, s.last+1)
	}
	return missing
}

// String is the form of status.completedIndexes: two neighbours are "1,2", more
// are "1-3".
func (x indexes) String() string {
	var b strings.Builder
	for _, s := range x {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s.first))
		if s.last > s.first {
			if s.last == s.first+1 {
				b.WriteByte(',')
			} else {
				b.WriteByte('-')
			}
			b.WriteString(strconv.Itoa(s.last))
		}
	}
	return b.String()
}
