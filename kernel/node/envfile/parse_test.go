package envfile

import (
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, c := range []struct {
		name, text, key, want, err string
	}{
		{name: "one", text: "A='1'", key: "A", want: "1"},
		{name: "the second", text: "A='1'\nB='2'\n", key: "B", want: "2"},
		{name: "the first of two", text: "A='1'\nA='2'", key: "A", want: "1"},
		{name: "blank lines, comments and indentation", text: "\n# A='0'\n \t A='1' # that's it\n", key: "A", want: "1"},
		{name: "as it is", text: `A='$B "x" \n =#'`, key: "A", want: `$B "x" \n =#`},
		{name: "several lines", text: "A='1\n2\n# 3'\nB='4'", key: "A", want: "1\n2\n# 3"},
		{name: "behind several lines", text: "A='1\n2'\nB='4'", key: "B", want: "4"},
		{name: "a key in a value", text: "A='1\nB=x'\nB='4'", key: "B", want: "4"},
		{name: "lines of Windows", text: "A='1'\r\nB='2'\r\n", key: "B", want: "2"},
		{name: "no value", text: "A= 'x'\nA='y'", key: "A"},
		{name: "empty", text: "A=''", key: "A"},
		{name: "not there", text: "A='1'", key: "B"},
		{name: "nothing", key: "A"},
		{name: "no equals sign", text: "B='1'\nA", key: "A", err: "line 2: missing '='"},
		{name: "no name", text: "='1'", key: "A", err: "empty variable name"},
		{name: "space before", text: "A ='1'", key: "A", err: "whitespace before '='"},
		{name: "no quotes", text: "A=1", key: "A", err: "single quotes"},
		{name: "double quotes", text: `A="1"`, key: "A", err: "single quotes"},
		{name: "not closed", text: "A='1\n2", key: "A", err: "line 1: unclosed"},
		{name: "more behind", text: "A='1\n'x", key: "A", err: "line 2: unexpected content"},
		{name: "what comes behind the key", text: "A='1'\nnot a line", key: "A", want: "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Lookup(c.text, c.key)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, c.want, c.err)
			}
		})
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("A='1'\nB='2\n3' # c\n", "B")
	f.Add("='''", "")
	f.Fuzz(func(t *testing.T, text, key string) {
		if value, err := Lookup(text, key); err != nil && value != "" || !strings.Contains(text, value) {
			t.Errorf("%q: %q, %v", text, value, err)
		}
	})
}
