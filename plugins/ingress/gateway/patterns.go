package gateway

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

const (
	// maxPattern is the length of a pattern, in bytes, and maxProgram what it is compiled
	// to, in instructions. A pattern that is tried costs its instructions times the text.
	maxPattern = 256
	maxProgram = 250
	// maxVerdicts are remembered. Where there are more, all are forgotten.
	maxVerdicts = 4096
)

// verdict is a pattern that was compiled, or why it is refused.
type verdict struct {
	pattern *regexp.Regexp
	err     error
}

// Patterns remembers what was compiled, by the text, for the tables to come: most changes
// are of endpoints alone. The zero value is ready. It may be used by several goroutines.
type Patterns struct {
	mu       sync.Mutex
	verdicts map[string]verdict
}

func (p *Patterns) compile(text string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, unsupportedf("a regular expression has more than %d bytes", maxPattern)
	}
	p.mu.Lock()
	v, ok := p.verdicts[text]
	p.mu.Unlock()
	if ok {
		return v.pattern, v.err
	}
	v.pattern, v.err = compilePattern(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verdicts == nil || len(p.verdicts) >= maxVerdicts {
		p.verdicts = map[string]verdict{}
	}
	p.verdicts[text] = v
	return v.pattern, v.err
}

// compilePattern compiles a text that has to match as a whole. One that is too large is
// refused before it is compiled, which would cost what it repeats.
func compilePattern(text string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, unsupportedf("regular expression: %v", err)
	}
	large := func(steps int) error {
		return unsupportedf("the regular expression %.40q is too large: it has %d steps, and may have %d", text, steps, maxProgram)
	}
	if n := stepsOf(parsed); n > maxProgram {
		return nil, large(n)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, unsupportedf("regular expression: %v", err)
	}
	if n := len(program.Inst); n > maxProgram {
		return nil, large(n)
	}
	out, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, unsupportedf("regular expression: %v", err)
	}
	return out, nil
}

// stepsOf is at most the number of instructions that a parsed expression is compiled to,
// with what it repeats as often as it repeats it.
func stepsOf(e *syntax.Regexp) int {
	n := 0
	for _, sub := range e.Sub {
		n += stepsOf(sub)
	}
	switch e.Op {
	case syntax.OpLiteral:
		return len(e.Rune)
	case syntax.OpRepeat:
		if n == 0 {
			return 1
		}
		return n * max(e.Min, e.Max, 1)
	case syntax.OpEmptyMatch, syntax.OpConcat, syntax.OpAlternate, syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return n
	}
	return 1
}
