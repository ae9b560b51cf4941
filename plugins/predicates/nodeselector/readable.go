package nodeselector

import (
	"strconv"
	"strings"

	"pintle.dev/pintle/sdk"
)

// Readable reports whether a term can select nodes at all.
func Readable(term *sdk.NodeSelectorTerm) bool {
	if len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
		return false
	}
	for i := range term.MatchExpressions {
		if !readableLabel(&term.MatchExpressions[i]) {
			return false
		}
	}
	for i := range term.MatchFields {
		r := &term.MatchFields[i]
		if r.Operator != "In" && r.Operator != "NotIn" || len(r.Values) != 1 {
			return false
		}
	}
	return true
}

func readableLabel(r *sdk.Requirement) bool {
	switch r.Operator {
	case "In", "NotIn":
		if len(r.Values) == 0 {
			return false
		}
	case "Exists", "DoesNotExist":
		if len(r.Values) != 0 {
			return false
		}
	case "Gt", "Lt":
		if len(r.Values) != 1 {
			return false
		}
		if _, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil {
			return false
		}
	default:
		return false
	}
	for _, value := range r.Values {
		if value != "" && !name(value) {
			return false
		}
	}
	return labelKey(r.Key)
}

// labelKey reports whether a text can be a label's key: a name, or a DNS
// subdomain, a slash and a name.
func labelKey(key string) bool {
	if domain, rest, ok := strings.Cut(key, "/"); ok {
		if len(domain) == 0 || len(domain) > 253 {
			return false
		}
		for label := range strings.SplitSeq(domain, ".") {
			if label == "" || strings.ContainsFunc(label, notOfDNS) || label[0] == '-' || label[len(label)-1] == '-' {
				return false
			}
		}
		key = rest
	}
	return name(key)
}

func notOfDNS(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }

// name reports whether a text is of at most 63 letters, digits, '-', '_' and '.',
// of which the first and the last are letters or digits.
func name(text string) bool {
	if text == "" || len(text) > 63 || !plain(text[0]) || !plain(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !plain(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
