package reasons

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// MaxBytes of one reason: as long as the note of an event may be.
	MaxBytes = 1024
	// maxReasons of one verdict, and maxTotal of their bytes.
	maxReasons = 64
	maxTotal   = 8 << 10

	cut = " ..."
)

// Text is a text of one line with MaxBytes at most. Breaks of lines and tabs are
// spaces in it; a control character, one that turns the direction of text, and a
// byte that is no UTF-8 are each the replacement character U+FFFD.
func Text(s string) string { return text(s, MaxBytes) }

func text(s string, limit int) string {
	if len(s) <= limit && plain(s) {
		return s
	}
	// Each byte gives three at most: what is behind does not count.
	over := len(s) > 4*limit
	if over {
		s = s[:4*limit]
	}
	if s = strings.Map(clean, s); strings.TrimSpace(s) == "" {
		return ""
	}
	if len(s) <= limit && !over {
		return s
	}
	end := min(len(s), limit-len(cut))
	for end > 0 && end < len(s) && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + cut
}

// plain reports whether there is nothing to clean, as is common.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return s == "" || s[0] != ' ' // it may be nothing but spaces
}

func clean(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return utf8.RuneError
	}
	return r
}

// List are the reasons of one verdict, each as by Text. Those without a word are
// left out. What is beyond the bounds is counted in the last one.
func List(list []string) []string {
	if len(list) <= maxReasons && !slices.ContainsFunc(list, func(s string) bool { return s == "" || len(s) > maxTotal/maxReasons || !plain(s) }) {
		return list
	}
	out, total, left := make([]string, 0, min(len(list), maxReasons)), 0, 0
	for _, s := range list {
		if s = Text(s); s == "" {
			continue
		}
		if len(out) == maxReasons-1 || total+len(s) > maxTotal {
			left++
			continue
		}
		out, total = append(out, s), total+len(s)
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("and %d more reasons", left))
	}
	return out
}

// Of are the reasons of a plugin's verdict; there is always one.
func Of(plugin string, list []string) []string {
	if list = List(list); len(list) == 0 {
		return []string{"refused by plugin " + plugin}
	}
	return list
}
