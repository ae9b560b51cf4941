package envfile

import (
	"fmt"
	"strings"
)

// Lookup finds the first value of a key. A key that is not there, and one
// without a value, give "". What comes behind the key is not looked at.
//
// A line is KEY='value', with spaces before the key and a comment behind the
// value allowed; blank lines and those that begin with # are left out. Within
// the quotes everything is taken as it is, ends of lines too. KEY= followed by a
// space has no value, as in a shell.
func Lookup(text, key string) (string, error) {
	for line := 1; text != ""; line++ {
		current, rest, _ := strings.Cut(text, "\n")
		current = strings.TrimLeft(strings.TrimSuffix(current, "\r"), " \t")
		if current == "" || strings.HasPrefix(current, "#") {
			text = rest
			continue
		}
		name, value, ok := strings.Cut(current, "=")
		switch {
		case !ok:
			return "", fmt.Errorf("line %d: missing '='", line)
		case name == "":
			return "", fmt.Errorf("line %d: empty variable name", line)
		case strings.ContainsAny(name, " \t"):
			return "", fmt.Errorf("line %d: whitespace before '=' is not allowed", line)
		case value == "" || value[0] == ' ' || value[0] == '\t':
			if name == key {
				return "", nil
			}
			text = rest
			continue
		case value[0] != '\'':
			return "", fmt.Errorf("line %d: value must be enclosed in single quotes", line)
		}
		// From the quote on in the text itself: the value may go on over lines.
		_, value, _ = strings.Cut(text, "='")
		value, rest, ok = strings.Cut(value, "'")
		if !ok {
			return "", fmt.Errorf("line %d: unclosed single quote", line)
		}
		behind, after, _ := strings.Cut(rest, "\n")
		line += strings.Count(value, "\n")
		if behind = strings.Trim(behind, " \t\r"); behind != "" && behind[0] != '#' {
			return "", fmt.Errorf("line %d: unexpected content after closing quote", line)
		}
		if name == key {
			return value, nil
		}
		text = after
	}
	return "", nil
}
