package abi

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The page has each export with the parameters and the result of the table, and no other.
func TestThePageHasTheTable(t *testing.T) {
	data, err := os.ReadFile("../ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	letter := map[string]string{"i32": "i", "i64": "l"}
	values := regexp.MustCompile(`\bi(?:32|64)\b`)
	spell := func(text string) (out string) {
		for _, v := range values.FindAllString(text, -1) {
			out += letter[v]
		}
		return out
	}
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(pintle_\\w+)` \\| ([^|]*) \\|").FindAllStringSubmatch(string(data), -1) {
		params, results, _ := strings.Cut(row[2], "→")
		found[row[1]] = spell(params) + ":" + spell(results)
	}
	for _, e := range Exports() {
		if found[e.Name] != e.Signature() {
			t.Errorf("%s has signature %s in ABI.md and %s in the table", e.Name, found[e.Name], e.Signature())
		}
		delete(found, e.Name)
	}
	for name := range found {
		t.Errorf("the table lacks %s of ABI.md", name)
	}
}
