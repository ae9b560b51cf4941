package batch

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func TestCountIndexes(t *testing.T) {
	for _, c := range []struct {
		list        string
		completions int32
		count       int32
		words       string
	}{
		{"", 3, 0, ""},
		{"0", 1, 1, ""},
		{"0,2-4,9", 10, 5, ""},
		{"0", 0, 0, `too large index: "0"`},
		{"3-10", 10, 0, `too large index: "10"`},
		{"4-4", 10, 0, "non-increasing order, previous: 4, current: 4"},
		{"5-4", 10, 0, "non-increasing order, previous: 5, current: 4"},
		{"1-3,3", 10, 0, "non-increasing order, previous: 3, current: 3"},
		{"1,", 10, 0, `cannot convert string to integer for index: ""`},
		{"-1", 10, 0, `cannot convert string to integer for index: ""`},
		{"1-2-3", 10, 0, "at most two parts"},
		{"99999999999999999999", 10, 0, "cannot convert string to integer"},
		{"4294967296", 10, 0, `too large index: "4294967296"`},
	} {
		count, err := countIndexes(c.list, c.completions)
		if count != c.count || (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%q of %d: %d, %v", c.list, c.completions, count, err)
		}
	}
}

// FuzzIndexes compares the intervals with a set of indexes, one by one.
func FuzzIndexes(f *testing.F) {
	for _, s := range []struct {
		a, b string
		n    int32
	}{{"0-2,5", "3,7-9", 10}, {"1", "1", 2}, {"x,1-4", "0,y,5-8", 9}, {"3,1", "2", 4}, {"+1", "1", 4}, {"1-", "-", 4}} {
		f.Add(s.a, s.b, s.n)
	}
	f.Fuzz(func(t *testing.T, a, b string, completions int32) {
		if completions < 0 || completions > 1000 {
			return
		}
		sets := [2]map[int]bool{}
		rising := true
		for i, list := range []string{a, b} {
			sets[i] = map[int]bool{}
			count, err := countIndexes(list, completions)
			if err != nil {
				rising = false
				continue
			}
			for s := range strings.SplitSeq(list, ",") {
				if s == "" {
					continue
				}
				first, last, ranged := strings.Cut(s, "-")
				if !ranged {
					last = first
				}
				x, err1 := strconv.Atoi(first)
				y, err2 := strconv.Atoi(last)
				if err1 != nil || err2 != nil {
					t.Fatalf("%q is accepted", list)
				}
				for ; x <= y; x++ {
					if sets[i][x] || x < 0 || x >= int(completions) {
						t.Fatalf("%q of %d: index %d", list, completions, x)
					}
					sets[i][x] = true
				}
			}
			if len(sets[i]) != int(count) {
				t.Fatalf("%q: %d indexes, %d counted", list, len(sets[i]), count)
			}
		}
		err := apart(a, b, completions)
		if !rising {
			return
		}
		common := -1
		for x := range sets[0] {
			if sets[1][x] && (common < 0 || x < common) {
				common = x
			}
		}
		want := ""
		if common >= 0 {
			want = fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", common)
		}
		if got := fmt.Sprint(err); err == nil && want != "" || err != nil && got != want {
			t.Fatalf("%q and %q: %v, want %q", a, b, err, want)
		}
	})
}
