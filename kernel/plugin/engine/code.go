package engine

import (
	"errors"
	"sync"
)

// span is a range of addresses that holds machine code of one module.
type span struct {
	start, end uintptr
	filed      bool // it is a file's
}

// code knows where the machine code of the modules lies that are not closed. A compiled
// module keeps its addresses at least until it is closed, and gives them back with a
// collection after that: so no span is looked at behind its module's Close.
var code struct {
	mu      sync.Mutex
	modules map[*Module][]span
	// compiling counts compilations under way, met those that met another one.
	compiling, met int
}

// Release gives the memory of machine code back to the system, for a time in which little
// of it runs: it moves the code into a file without a name in a folder, where it was not
// moved before, and lets go of its pages. They come back from the file as they are run.
// What cannot be moved stays where it is.
func Release(folder string) error {
	code.mu.Lock()
	defer code.mu.Unlock()
	var errs []error
	for _, spans := range code.modules {
		for i := range spans {
			errs = append(errs, spans[i].release(folder))
		}
	}
	return errors.Join(errs...)
}

// sighting is what of the process's machine code was there before a compilation.
type sighting struct {
	before []span
	met    int
	alone  bool
}

func beforeCompiling() sighting {
	code.mu.Lock()
	code.compiling++
	s := sighting{alone: code.compiling == 1, met: code.met}
	if !s.alone {
		code.met++
	}
	code.mu.Unlock()
	if s.alone {
		s.before = machineCode()
	}
	return s
}

// compiled notes where the code of a module lies, nil of one that has none. Of
// compilations that met, which code is whose is not known, and it stays where it is.
func (s sighting) compiled(m *Module) {
	var fresh []span
	if s.alone && m != nil {
		fresh = without(machineCode(), s.before)
	}
	code.mu.Lock()
	defer code.mu.Unlock()
	code.compiling--
	if s.met != code.met || len(fresh) == 0 {
		return
	}
	if code.modules == nil {
		code.modules = map[*Module][]span{}
	}
	code.modules[m] = fresh
}

// closing forgets the code of a module.
func closing(m *Module) {
	code.mu.Lock()
	defer code.mu.Unlock()
	delete(code.modules, m)
}

// without is what of spans lies in no other span. Both are in the order of addresses.
func without(spans, others []span) (left []span) {
	for _, s := range spans {
		for _, o := range others {
			if o.end <= s.start || o.start >= s.end {
				continue
			}
			if o.start > s.start {
				left = append(left, span{start: s.start, end: o.start})
			}
			s.start = min(o.end, s.end)
		}
		if s.start < s.end {
			left = append(left, s)
		}
	}
	return left
}
