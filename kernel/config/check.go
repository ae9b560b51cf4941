package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"pintle.dev/pintle/kernel/dualstack"
)

// checker walks a YAML tree along the schema and collects faults.
type checker struct {
	file   string
	faults Faults
}

func (c *checker) fault(n *yaml.Node, key, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	c.faults = append(c.faults, Fault{File: c.file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

// group checks a mapping against the keys of a struct type.
func (c *checker) group(path string, n *yaml.Node, t reflect.Type) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		c.fault(n, path, "want a group of keys (%s), not %s", keyList(t), kindName(n))
		return
	}
	fields := fieldsOf(t)
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := slices.IndexFunc(fields, func(f field) bool { return f.key == k.Value })
		if at < 0 {
			if near := nearest(k.Value, fields); near != "" {
				c.fault(k, join(path, k.Value), "unknown key; did you mean %q?", near)
			} else {
				c.fault(k, join(path, k.Value), "unknown key; known here: %s", keyList(t))
			}
			continue
		}
		if first, dup := seen[k.Value]; dup {
			c.fault(k, join(path, k.Value), "key is given twice, first at line %d; keep one", first)
			continue
		}
		seen[k.Value] = k.Line
		c.value(join(path, k.Value), v, fields[at])
	}
	for _, f := range fields {
		if _, ok := seen[f.key]; f.required && !ok {
			c.fault(n, path, "key %q is missing: %s", f.key, f.doc)
		}
	}
}

func (c *checker) value(path string, n *yaml.Node, f field) {
	switch {
	case isNull(n):
		if f.required {
			c.fault(n, path, "is empty; want %s", f.doc)
		}
	case f.raw:
		c.raw(path, n, f)
	case isGroup(f.typ):
		c.group(path, n, f.typ)
	case f.typ.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			c.fault(n, path, "want a list, not %s", kindName(n))
			return
		}
		item := f
		item.typ = f.typ.Elem()
		for i, child := range n.Content {
			c.value(fmt.Sprintf("%s[%d]", path, i), child, item)
		}
	case n.Kind != yaml.ScalarNode:
		c.fault(n, path, "want %s, not %s", typeName(f.typ), kindName(n))
	default:
		if text := checkScalar(n.Value, f); text != "" {
			c.fault(n, path, "%s", text)
		}
	}
}

func (c *checker) raw(path string, n *yaml.Node, f field) {
	if n.Kind != yaml.MappingNode {
		c.fault(n, path, "want a group of keys, not %s", kindName(n))
		return
	}
	if f.typ == typeRaw {
		var v any
		if err := n.Decode(&v); err != nil {
			c.fault(n, path, "%v", err)
		} else if _, err := json.Marshal(v); err != nil {
			c.fault(n, path, "cannot be written as JSON: keys must be words")
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		key := join(path, k.Value)
		if first, dup := seen[k.Value]; dup {
			c.fault(k, key, "key is given twice, first at line %d; keep one", first)
			continue
		}
		seen[k.Value] = k.Line
		if v.Kind != yaml.ScalarNode {
			c.fault(v, key, "want a word, not %s", kindName(v))
		} else if text := checkEntry(f.format, k.Value, v.Value); text != "" {
			c.fault(v, key, "%s", text)
		}
	}
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// checkScalar returns what is wrong with a value and what would be right, or "".
func checkScalar(s string, f field) string {
	if _, err := parseScalar(s, f.typ); err != nil {
		return fmt.Sprintf("%q is not %s", s, typeName(f.typ))
	}
	if len(f.enum) > 0 && !slices.Contains(f.enum, s) && f.typ.Kind() == reflect.String {
		return fmt.Sprintf("%q is not one of %s", s, strings.Join(f.enum, ", "))
	}
	if f.required && s == "" {
		return "is empty; want " + f.doc
	}
	if f.rng != "" {
		low, high, _ := strings.Cut(f.rng, ",")
		v, _ := parseScalar(s, f.typ)
		lo, _ := parseScalar(low, f.typ)
		hi, _ := parseScalar(high, f.typ)
		if v < lo || v > hi {
			return fmt.Sprintf("%s is out of range; want %s to %s", s, low, high)
		}
	}
	format, optional := strings.CutSuffix(f.format, "?")
	if format == "" || optional && s == "" {
		return ""
	}
	switch format {
	case "endpoint":
		if host, port, err := net.SplitHostPort(s); err != nil || host == "" || port == "" {
			return fmt.Sprintf("%q is not a host and a port such as 127.0.0.1:4317", s)
		}
	case "url":
		if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Sprintf("%q is not a URL such as http://127.0.0.1:8888/scheduler", s)
		}
	case "ip":
		if _, err := netip.ParseAddr(s); err != nil {
			return fmt.Sprintf("%q is not an IP address such as 127.0.0.1", s)
		}
	case "cidr":
		if p, err := netip.ParsePrefix(s); err != nil || p.Masked() != p {
			return fmt.Sprintf("%q is not an address range such as 10.96.0.0/16 with its host bits zero", s)
		}
	case "ips":
		if _, err := dualstack.Addresses(s); err != nil {
			return fmt.Sprintf("%q is not an IP address such as 192.0.2.10, or one of each IP family with a comma between them", s)
		}
	case "cidrs":
		return checkRanges(s)
	case "portrange":
		low, high, ok := strings.Cut(s, "-")
		lo, err1 := strconv.ParseUint(low, 10, 16)
		hi, err2 := strconv.ParseUint(high, 10, 16)
		if !ok || err1 != nil || err2 != nil || lo < 1 || lo > hi {
			return fmt.Sprintf("%q is not a range of ports such as 30000-32767", s)
		}
	case "idrange":
		if first, last, err := ParseIDRange(s); err != nil || last-first >= 1_000_000 {
			return fmt.Sprintf("%q is not a range of user ids such as 60706-61183", s)
		}
	case "cpu":
		if q, err := resource.ParseQuantity(s); err != nil || q.MilliValue() < 10 || q.MilliValue() > 1_000_000 {
			return fmt.Sprintf("%q is not an amount of CPU such as 500m, 10m to 1000", s)
		}
	case "absolute":
		if !filepath.IsAbs(s) || filepath.Clean(s) != s {
			return fmt.Sprintf("%q is not an absolute path such as /pods", s)
		}
	case "labelkey":
		if msgs := validation.IsQualifiedName(s); len(msgs) > 0 {
			return fmt.Sprintf("%q: %s", s, msgs[0])
		}
	case "labelvalue":
		if msgs := validation.IsValidLabelValue(s); len(msgs) > 0 {
			return fmt.Sprintf("%q: %s", s, msgs[0])
		}
	case "digest":
		if !digestForm.MatchString(s) {
			return fmt.Sprintf("%q is not a digest: sha256: and 64 hexadecimal digits", s)
		}
	}
	return ""
}

// ParseIDRange reads a range of user ids, first-last. Neither root nor nobody is
// in one.
func ParseIDRange(s string) (first, last int, err error) {
	low, high, ok := strings.Cut(s, "-")
	lo, err1 := strconv.ParseUint(low, 10, 31)
	hi, err2 := strconv.ParseUint(high, 10, 31)
	if !ok || err1 != nil || err2 != nil || lo < 1 || lo > hi || lo <= 65534 && hi >= 65534 {
		return 0, 0, fmt.Errorf("%q is not a range of user ids", s)
	}
	return int(lo), int(hi), nil
}

// parseScalar returns the value's magnitude for range checks (0 for words and
// switches), or an error when the text is not of the type.
func parseScalar(s string, t reflect.Type) (int64, error) {
	switch {
	case t == typeDuration:
		d, err := time.ParseDuration(s)
		return int64(d), err
	case t == typeSize:
		v, err := ParseSize(s)
		return int64(v), err
	case t.Kind() == reflect.Bool:
		if s != "true" && s != "false" {
			return 0, fmt.Errorf("not a switch")
		}
		return 0, nil
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return strconv.ParseInt(s, 10, 64)
	}
	return 0, nil
}

func typeName(t reflect.Type) string {
	switch {
	case t == typeDuration:
		return "a duration such as 30s or 5m"
	case t == typeSize:
		return "an amount of bytes such as 64Mi"
	case isGroup(t):
		return "a group of keys"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "a word"
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a group of keys"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}

func keyList(t reflect.Type) string {
	fields := fieldsOf(t)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return strings.Join(keys, ", ")
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
