package batch

import (
	"fmt"
	"strconv"
	"strings"
)

// A list of indexes is written like "1,3-5,7": indexes and intervals of them,
// rising, each below the Job's completions.

// interval is an interval of indexes with both its ends.
type interval struct{ first, last int32 }

// parseInterval reads "3" or "3-5".
func parseInterval(s string, completions int32) (interval, error) {
	ends := strings.Split(s, "-")
	if len(ends) > 2 {
		return interval{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", s)
	}
	var n [2]int
	for i, end := range ends {
		var err error
		if n[i], err = strconv.Atoi(end); err != nil {
			return interval{}, fmt.Errorf("cannot convert string to integer for index: %q", end)
		}
		if n[i] >= int(completions) {
			return interval{}, fmt.Errorf("too large index: %q", end)
		}
	}
	if len(ends) == 1 {
		n[1] = n[0]
	} else if n[0] >= n[1] {
		return interval{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", n[0], n[1])
	}
	return interval{int32(n[0]), int32(n[1])}, nil
}

// countIndexes reads a list and counts its indexes.
func countIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	var count int32
	var before *interval
	for s := range strings.SplitSeq(list, ",") {
		i, err := parseInterval(s, completions)
		if err != nil {
			return 0, err
		}
		if before != nil && before.last >= i.first {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", before.last, i.first)
		}
		count += i.last - i.first + 1
		before = &i
	}
	return count, nil
}

// readable lists the intervals of a list that can be read; what cannot is said
// where the list is checked for itself.
func readable(list string, completions int32) []interval {
	var out []interval
	for s := range strings.SplitSeq(list, ",") {
		if i, err := parseInterval(s, completions); err == nil {
			out = append(out, i)
		}
	}
	return out
}

// apart: an index is in one of the two lists at most.
func apart(completed, failed string, completions int32) error {
	if completed == "" || failed == "" {
		return nil
	}
	a, b := readable(completed, completions), readable(failed, completions)
	for len(a) > 0 && len(b) > 0 {
		switch c, f := a[0], b[0]; {
		case c.first <= f.last && f.first <= c.last:
			return fmt.Errorf("failedIndexes and completedIndexes overlap at index: %d", max(c.first, f.first))
		case c.first <= f.first:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return nil
}
