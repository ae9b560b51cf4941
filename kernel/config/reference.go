package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Reference writes every key as Markdown, from the tags of Config and the defaults:
// one table per group of keys, with the default, the allowed values, whether a change
// needs a restart, and the meaning. Keys of a list's items stand in a table of their own.
func Reference(w io.Writer) error {
	var b strings.Builder
	referenceGroup(&b, "", "", false, reflect.ValueOf(*Default()))
	_, err := io.WriteString(w, b.String())
	return err
}

// referenceGroup writes the table of one group, and behind it those of the groups and
// lists in it.
func referenceGroup(b *strings.Builder, path, doc string, live bool, v reflect.Value) {
	var rows strings.Builder
	var inner []func()
	for _, f := range fieldsOf(v.Type()) {
		key, value := join(path, f.key), v.Field(f.index)
		meaning, typ := sentence(f.doc), f.typ
		fieldLive := live || f.live
		if isGroup(typ) {
			inner = append(inner, func() { referenceGroup(b, key, sentence(f.doc), fieldLive, value) })
			continue
		}
		shown := shownDefault(key, value, f)
		if typ.Kind() == reflect.Slice && isGroup(typ.Elem()) {
			items := key + "[]"
			inner = append(inner, func() {
				referenceGroup(b, items, "One item of `"+key+"`: "+f.doc+".", fieldLive, reflect.Zero(typ.Elem()))
			})
			meaning += " Keys of an item: `" + items + "`."
		}
		if f.required {
			shown = "required"
		}
		effect := "restart"
		if fieldLive {
			effect = "live"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", key, shown, cell(strings.ReplaceAll(allowed(f), " | ", ", ")), effect, cell(meaning))
	}
	if path == "" {
		b.WriteString("\n## The top of the file\n\n")
	} else {
		fmt.Fprintf(b, "\n## `%s`\n\n%s\n\n", path, doc)
	}
	fmt.Fprintf(b, "| Key | Default | Allowed | Change | Meaning |\n|---|---|---|---|---|\n%s", rows.String())
	for _, write := range inner {
		write()
	}
}

// shownDefault is the default as a file would have it, or nothing for what is empty.
func shownDefault(path string, v reflect.Value, f field) string {
	node := showValue(path, false, v, f)
	if node == nil || node.Kind != yaml.ScalarNode && len(node.Content) == 0 || node.Kind == yaml.ScalarNode && node.Value == "" {
		return ""
	}
	node.Style = yaml.FlowStyle
	if node.Kind == yaml.ScalarNode {
		return "`" + node.Value + "`"
	}
	text, err := yaml.Marshal(node)
	if err != nil {
		return ""
	}
	return "`" + strings.Join(strings.Fields(string(text)), " ") + "`"
}

// sentence is a line of documentation with a capital letter and a full stop.
func sentence(doc string) string {
	if doc == "" {
		return ""
	}
	return strings.ToUpper(doc[:1]) + doc[1:] + "."
}

// cell is text as a table holds it.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
