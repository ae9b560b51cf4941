package reasons

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"as it is", "Insufficient cpu", "Insufficient cpu"},
		{"nothing", "", ""},
		{"another language", "nœud trop chargé 満杯", "nœud trop chargé 満杯"},
		{"colours of a terminal", "\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"},
		{"title of a terminal", "\x1b]0;title\x07", "\ufffd]0;title\ufffd"},
		{"one byte that begins a sequence", "\u009b2J", "\ufffd2J"},
		{"NUL and delete", "a\x00b\x7fc", "a\ufffdb\ufffdc"},
		{"lines", "one\r\ntwo\tthree\u2028four\u0085five", "one  two three four five"},
		{"carriage return over the text", "bad\rgood", "bad good"},
		{"direction", "a\u202egnp.exe\u2066", "a\ufffdgnp.exe\ufffd"},
		{"no UTF-8", "a\xff\xfeb", "a\ufffd\ufffdb"},
		{"spaces alone", " \t\n ", ""},
		{"around", " a ", " a "},
		{"behind", "journal: ", "journal: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Text(c.in); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// Whatever is in it, a text is of one line, of whole characters, and bounded.
func TestTextIsBounded(t *testing.T) {
	for _, unit := range []string{"a", "é", "満", "\xff", "\x1b", "\U0001F9ED", " "} {
		for _, n := range []int{MaxBytes - 5, MaxBytes - 1, MaxBytes, MaxBytes + 1, 100_000} {
			got := Text("x" + strings.Repeat(unit, n))
			if len(got) > MaxBytes || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
				t.Errorf("%d times %q: %d bytes, %q", n, unit, len(got), got)
			}
		}
	}
}

func TestList(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("reason ", i)
	}
	got := List(many)
	if len(got) != maxReasons || got[0] != "reason 0" || got[len(got)-1] != "and 937 more reasons" {
		t.Errorf("%d of 1000: %q", len(got), got)
	}
	long := List(slices.Repeat([]string{strings.Repeat("w", 3000)}, 60))
	if size := len(strings.Join(long, "")); size > maxTotal+100 || long[len(long)-1] != "and 52 more reasons" {
		t.Errorf("%d bytes, last %q", size, long[len(long)-1])
	}
	clean := []string{"a", "b"}
	if kept := List(clean); &kept[0] != &clean[0] {
		t.Error("what needs no cleaning is copied")
	}
	if got := List([]string{"", "a\x00", " "}); !slices.Equal(got, []string{"a\ufffd"}) {
		t.Errorf("%q", got)
	}
	for _, none := range [][]string{nil, {""}, {" ", "\n"}} {
		if got := Of("P", none); !slices.Equal(got, []string{"refused by plugin P"}) {
			t.Errorf("Of(%q): %q", none, got)
		}
	}
}
