// Package readmes compares the READMEs of plugins with what the plugins declare, so
// that a reader of one is never told another scope, kind or list of objects than the
// host goes by. The tests of bundles call it. The table in the section "Scope" is the
// declaration itself; `go test -update` in a bundle's folder writes it.
//
// It imports the sdk alone.
package readmes

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pintle.dev/pintle/sdk"
)

var update = flag.Bool("update", false, "write the declarations into the READMEs")

// folders are where plugins of a kind are, below plugins.
var folders = map[string]string{
	sdk.KindPreEnqueue: "preenqueues", sdk.KindQueueSort: "queuesorts", sdk.KindPreFilter: "prefilters", sdk.KindPredicate: "predicates",
	sdk.KindPostFilter: "postfilters", sdk.KindPriority: "priorities", sdk.KindReserve: "reserves", sdk.KindPreBind: "prebinds", sdk.KindBind: "binds",
}

// File is the README of a plugin, for a bundle whose folder is below plugins.
func File(p sdk.PluginInfo) string {
	return filepath.Join("..", folders[p.Kind], strings.ToLower(p.Name), "README.md")
}

// Check compares one README with what the plugins declare that it describes.
func Check(t *testing.T, file string, plugins ...sdk.PluginInfo) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
		return
	}
	if *update {
		if text, err = with(text, plugins); err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, fault := range faults(text, plugins) {
		t.Errorf("%s: %s", file, fault)
	}
}

const (
	heading = "\n## Scope\n"
	head    = "| Plugin | Kind | Scope | Pods | Reads | Scores |\n|---|---|---|---|---|---|\n"
)

// table is what plugins declare.
func table(plugins []sdk.PluginInfo) string {
	var b strings.Builder
	b.WriteString(head)
	for _, p := range plugins {
		scope, pods, reads, scores := "", "all", "nothing", ""
		if scoped(p) {
			scope = "`" + string(p.Scope) + "`"
		}
		if p.Pods == sdk.PodsWithClaims {
			pods = "with claims"
		}
		if len(p.Reads) > 0 {
			reads = strings.Join(p.Reads, ", ")
		}
		if p.Kind == sdk.KindPriority {
			scores = fmt.Sprintf("0–%d, `%s`", cmp.Or(p.MaxScore, sdk.MaxScore), cmp.Or(p.Normalize, sdk.NormalizeNone))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", p.Name, p.Kind, scope, pods, reads, scores)
	}
	return b.String()
}

// scoped reports whether a plugin answers about nodes, so that its scope matters.
func scoped(p sdk.PluginInfo) bool { return p.Kind == sdk.KindPredicate || p.Kind == sdk.KindPriority }

// section is the text below the heading Scope, up to the next one.
func section(text []byte) (start, end int, err error) {
	start = bytes.Index(text, []byte(heading))
	if start < 0 {
		return 0, 0, fmt.Errorf("no section Scope")
	}
	start += len(heading)
	end = bytes.Index(text[start:], []byte("\n## "))
	if end < 0 {
		return 0, 0, fmt.Errorf("no section behind Scope")
	}
	return start, start + end, nil
}

// with is the README with the plugins' table.
func with(text []byte, plugins []sdk.PluginInfo) ([]byte, error) {
	start, end, err := section(text)
	if err != nil {
		return nil, err
	}
	prose := text[start:end]
	if i := bytes.Index(prose, []byte(head)); i >= 0 {
		prose = prose[:i]
	}
	return bytes.Join([][]byte{text[:start], bytes.TrimRight(prose, "\n"), []byte("\n\n" + table(plugins)), text[end:]}, nil), nil
}

// word is a scope as the prose has it.
var word = regexp.MustCompile("`(node|node-object|cluster)`")

// faults is what a README says otherwise than the plugins.
func faults(text []byte, plugins []sdk.PluginInfo) []string {
	start, end, err := section(text)
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	prose, rows, ok := strings.Cut(string(text[start:end]), head)
	if !ok || head+rows != table(plugins) {
		found = append(found, "its table is not what is declared: run go test -update in the folder of this README")
	}
	declared := map[string]bool{}
	for _, p := range plugins {
		if scoped(p) {
			declared[string(p.Scope)] = true
		}
	}
	for _, m := range word.FindAllStringSubmatch(prose, -1) {
		if !declared[m[1]] {
			found = append(found, fmt.Sprintf("it speaks of the scope %s, which is not declared", m[1]))
		}
	}
	return found
}
