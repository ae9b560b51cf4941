package engine

import (
	"context"
	"errors"
	"fmt"
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

	releasing sync.Mutex      // of Release, one at a time
	refused   map[string]bool // folders whose files cannot be run
}

// Release gives the memory of machine code back to the system, for a time in which little
// of it runs: it moves the code into a file without a name in a folder, where it was not
// moved before, and lets go of its pages. They come back from the file as they are run.
// What cannot be moved stays where it is. It writes to the disk, until ctx ends. It keeps
// no module from being compiled; the close of the module that it copies waits for the write
// under way, not for the disk to take it. After the error that a folder's files cannot be
// run, nothing is tried in that folder again.
func Release(ctx context.Context, folder string) error {
	code.releasing.Lock()
	defer code.releasing.Unlock()
	if code.refused[folder] {
		return nil
	}
	code.mu.Lock()
	var all []*Module
	for m := range code.modules {
		all = append(all, m)
	}
	code.mu.Unlock()
	var errs []error
	for _, m := range all {
		err := m.release(ctx, folder)
		if errors.Is(err, errRefused) {
			if code.refused == nil {
				code.refused = map[string]bool{}
			}
			code.refused[folder] = true
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// release moves the code of one module.
func (m *Module) release(ctx context.Context, folder string) error {
	var spans []span               // nobody else changes what lies in it
	_ = m.whileOpen(func() error { // which returns none
		code.mu.Lock()
		defer code.mu.Unlock()
		spans = code.modules[m]
		return nil
	})
	var errs []error
	for i := range spans {
		errs = append(errs, m.releaseSpan(ctx, &spans[i], folder))
	}
	return errors.Join(errs...)
}

func (m *Module) releaseSpan(ctx context.Context, s *span, folder string) error {
	if s.filed {
		return m.whileOpen(s.letGo)
	}
	fd := -1
	if err := m.whileOpen(func() (err error) {
		fd, err = s.file(func() bool { return ctx.Err() != nil || m.closing.Load() }, folder)
		return err
	}); err != nil || fd < 0 {
		return err
	}
	defer closeFile(fd)
	// A disk that fails says so now: later the code would be nowhere.
	if err := syncFile(fd); err != nil {
		return fmt.Errorf("write machine code to %s: %w", folder, err)
	}
	return m.whileOpen(func() error { return s.moveTo(fd) })
}

// whileOpen does something to the code of a module that is not closed meanwhile; nothing
// to that of one that is closed.
func (m *Module) whileOpen(do func() error) error {
	m.held.Lock()
	defer m.held.Unlock()
	if m.closing.Load() {
		return nil
	}
	return do()
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

// closing forgets the code of a module. A copy that is being written is given up.
func closing(m *Module) {
	m.closing.Store(true)
	m.held.Lock()
	defer m.held.Unlock()
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
