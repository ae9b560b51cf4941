package gateway

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

// TestSteps: the size of an expression is known before it is compiled, and is never less
// than half of what it is compiled to without being bounded (hostile).
func TestSteps(t *testing.T) {
	for text, large := range map[string]bool{
		"": false, "a": false, "/v[12]/.*": false, "(a|b)*c+d?": false, "(?:)": false, "(?i)shop": false, "a{0}": false, "^$": false,
		strings.Repeat("a", 240): false, "(?:abcde){40}": false,
		"(?:a?b?c?d?e?f?g?h?){1000}": true, "a{1000}": true, "((a{2,30}){2,30})": true, "(a{1,900}b?)": true, "(?:(?:a|b){5,}){90}": true,
		"(?:a{10}b{10}c{10}){10}": true,
	} {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		n := stepsOf(parsed)
		if got := n > maxProgram; got != large {
			t.Errorf("%s has %d steps", text, n)
		}
		if _, err := compilePattern(text); (err != nil) != large {
			t.Errorf("%s: %v", text, err)
		}
		if large {
			continue // it is not compiled
		}
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		// Alternatives and repetitions have a branch each; Compile adds three instructions.
		if len(program.Inst) > 2*n+2*len(text)+3 {
			t.Errorf("%s has %d steps and is compiled to %d", text, n, len(program.Inst))
		}
	}
}

// TestVerdicts: a text is compiled once, whether it is refused or not, and a number of them
// is remembered.
func TestVerdicts(t *testing.T) {
	p := &Patterns{}
	first, err := p.compile("/a+")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.compile("/a+"); err != nil || again != first {
		t.Errorf("it is compiled again: %v", err)
	}
	_, fault := p.compile("a{1000}")
	if _, again := p.compile("a{1000}"); fault == nil || again != fault {
		t.Errorf("the verdict is %v, then %v", fault, again)
	}
	for i := range 2 * maxVerdicts {
		_, _ = p.compile(fmt.Sprint(i))
		if len(p.verdicts) > maxVerdicts {
			t.Fatalf("%d verdicts are remembered", len(p.verdicts))
		}
	}
	if !first.MatchString("/aa") || first.MatchString("x/aa") {
		t.Error("it does not match as a whole")
	}
}

// TestPatternsOfTables: the next table has the patterns of the one before.
func TestPatternsOfTables(t *testing.T) {
	w := newWorld()
	w.gateway(t, "infra/edge", anyHost)
	w.http(t, "shop/a", `{parentRefs: [{name: edge, namespace: infra}], hostnames: [a.test], rules: [{matches: [{path: {type: RegularExpression, value: "/x+"}}], backendRefs: [{name: web, port: 80}]}]}`)
	w.compile()
	before := w.patterns.verdicts["/x+"].pattern
	if before == nil {
		t.Fatal("the pattern is not remembered")
	}
	w.compile()
	if w.patterns.verdicts["/x+"].pattern != before {
		t.Error("the pattern was compiled again")
	}
}
