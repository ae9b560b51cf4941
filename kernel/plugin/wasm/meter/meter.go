package meter

import (
	"encoding/binary"
	"errors"
	"fmt"

	"pintle.dev/pintle/kernel/plugin/engine"
)

// A WASM module that loops for ever must be stopped from within: native code
// cannot be preempted. wazero's own means (WithCloseOnContextDone) leaves
// native code at every turn of every loop and made a pass over 1,000 nodes 6.6
// times slower (27 µs to 178 µs) and a one-node call 320 ns to 2.1 µs. So the
// module is rewritten before it is compiled: a fuel counter of its own, which
// the module itself cannot name, is taken down at loop heads, at the entry of
// functions that call others and do not begin with a loop (Go's do), and before
// memory is copied or filled, by how much of it. When it is used up the module calls one imported host function, which looks at the
// clock and either traps or hands out the next slice. Data segments are joined on
// the way (segments.go).

const (
	// Version is part of the name of cached rewritten modules.
	Version = 4
	// fuelSlice is how much fuel one look at the clock is good for: at a unit a
	// turn of a small loop about 0.1 ms.
	fuelSlice = 1 << 16
	// bulkFuel is charged for operations that may touch a whole table at once, or
	// make memory.
	bulkFuel = fuelSlice / 16
	// bulkShift: two to the power of it bytes of memory that are copied or filled
	// cost one unit.
	bulkShift = 6
	// fuelBytes of function body cost one unit more a turn, so that a loop of a
	// huge body cannot outrun the clock.
	fuelBytes = 512

	maxModuleBytes = 64 << 20
	// Tables lie outside of the module's memory: so many of so many entries all
	// together.
	maxTables, maxTableEntries = 16, 1 << 20
	maxLocals                  = 1 << 20 // of a function; wazero takes fewer
)

// Section ids of the binary format.
const (
	sectionCustom   = 0
	sectionType     = 1
	sectionImport   = 2
	sectionFunction = 3
	sectionTable    = 4
	sectionGlobal   = 6
	sectionExport   = 7
	sectionStart    = 8
	sectionElement  = 9
	sectionCode     = 10
	sectionData     = 11
	sectionCount    = 12 // of data, for instructions that name segments
)

var errModule = errors.New("malformed WASM module")

// meterer rewrites one module.
type meterer struct {
	types     uint32   // number of types; the check's own is appended
	imports   uint32   // imported functions: the check becomes the next one
	functions uint32   // all functions of the original
	globals   uint32   // all globals of the original; the fuel is appended
	params    []uint32 // by type: how many parameters
	typed     []uint32 // by function that is no import: its type
	local     uint32   // of the function at hand: the one that was added
}

// Rewrite rewrites a module as described above. Custom sections (names, debug
// information) are dropped. Malformed modules are refused; what is refused
// here or not is no proof of validity, which wazero checks afterwards.
func Rewrite(module []byte) (out []byte, err error) {
	defer func() {
		// cursor panics with errModule at the end of its data.
		if r := recover(); r != nil {
			e, ok := r.(error)
			if !ok || !errors.Is(e, errModule) {
				panic(r)
			}
			out, err = nil, e
		}
	}()
	if len(module) > maxModuleBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are taken", errModule, len(module), maxModuleBytes)
	}
	if len(module) < 8 || string(module[:4]) != "\x00asm" || binary.LittleEndian.Uint32(module[4:]) != 1 {
		return nil, fmt.Errorf("%w: not a WASM 1.0 binary", errModule)
	}
	sections := map[byte][]byte{}
	var order []byte
	c := &cursor{data: module, at: 8}
	for c.more() {
		id := c.byte()
		body := c.take(c.u32())
		if id == sectionCustom {
			continue
		}
		if _, twice := sections[id]; twice || id > sectionCount {
			return nil, fmt.Errorf("%w: section %d", errModule, id)
		}
		sections[id] = body
		order = append(order, id)
	}
	m := &meterer{}
	m.count(sections)
	checkTables(sections[sectionTable])
	out = append(make([]byte, 0, len(module)+len(module)/8), module[:8]...)
	written := map[byte]bool{}
	emit := func(id byte, body []byte) {
		out = append(out, id)
		out = binary.AppendUvarint(out, uint64(len(body)))
		out = append(out, body...)
		written[id] = true
	}
	// Sections that the module may lack but the rewriting needs.
	need := func(before byte) {
		for _, id := range []byte{sectionType, sectionImport, sectionGlobal} {
			if !written[id] && sections[id] == nil && rank(before) > rank(id) {
				emit(id, m.extend(id, []byte{0}))
			}
		}
	}
	for _, id := range order {
		need(id)
		body := sections[id]
		switch id {
		case sectionType, sectionImport:
			body = m.extend(id, body)
		case sectionGlobal:
			body = m.extend(id, m.rewriteGlobals(body))
		case sectionExport:
			body = m.rewriteExports(body)
		case sectionStart:
			body = binary.AppendUvarint(nil, uint64(m.function((&cursor{data: body}).u32())))
		case sectionElement:
			body = m.rewriteElements(body)
		case sectionCode:
			body = m.rewriteCode(body)
		case sectionData:
			if _, named := sections[sectionCount]; !named {
				body = joinData(body)
			}
		}
		emit(id, body)
	}
	need(sectionCode + 3)
	return out, nil
}

// rank orders sections as they must appear: the data count stands before the code.
func rank(id byte) int {
	if id == sectionCount {
		return 2*sectionCode - 1
	}
	return 2 * int(id)
}

// checkTables bounds what a module has beside its memory.
func checkTables(body []byte) {
	if body == nil {
		return
	}
	c := &cursor{data: body}
	n := c.u32()
	if n > maxTables {
		c.fail(fmt.Sprintf("more than %d tables", maxTables))
	}
	for entries := uint64(0); n > 0; n-- {
		c.byte()
		flags, least := c.byte(), c.u32()
		if flags&1 != 0 {
			c.u32()
		}
		if entries += uint64(least); entries > maxTableEntries {
			c.fail(fmt.Sprintf("tables of more than %d entries", maxTableEntries))
		}
	}
}

// count finds the sizes of the index spaces.
func (m *meterer) count(sections map[byte][]byte) {
	if s := sections[sectionType]; s != nil {
		c := &cursor{data: s}
		m.types = c.u32()
		for range m.types {
			if c.byte() != 0x60 {
				c.fail("type")
			}
			params := c.u32()
			c.take(params)
			c.take(c.u32())
			m.params = append(m.params, params)
		}
	}
	if s := sections[sectionImport]; s != nil {
		c := &cursor{data: s}
		for n := c.u32(); n > 0; n-- {
			c.take(c.u32())
			c.take(c.u32())
			switch c.byte() {
			case 0:
				c.u32()
				m.imports++
			case 1:
				c.byte()
				c.limits()
			case 2:
				c.limits()
			case 3:
				c.take(2)
				m.globals++
			default:
				c.fail("import")
			}
		}
	}
	m.functions = m.imports
	if s := sections[sectionFunction]; s != nil {
		c := &cursor{data: s}
		n := c.u32()
		m.functions += n
		for range n {
			t := c.u32()
			if t >= m.types {
				c.fail("type of a function")
			}
			m.typed = append(m.typed, t)
		}
	}
	if s := sections[sectionGlobal]; s != nil {
		m.globals += (&cursor{data: s}).u32()
	}
}

// function maps a function's index to the one after the check was put in.
func (m *meterer) function(index uint32) uint32 {
	if index >= m.functions {
		panic(fmt.Errorf("%w: function %d of %d", errModule, index, m.functions))
	}
	if index >= m.imports {
		return index + 1
	}
	return index
}

// extend appends one entry to a vector: the check's type, the check, the fuel.
func (m *meterer) extend(id byte, body []byte) []byte {
	c := &cursor{data: body}
	out := binary.AppendUvarint(nil, uint64(c.u32())+1)
	rest := c.data[c.at:]
	switch id {
	case sectionType:
		out = append(out, rest...)
		return append(out, 0x60, 0, 0)
	case sectionImport:
		// Function imports are numbered among themselves, so last is behind them all.
		out = append(out, rest...)
		out = append(append(out, byte(len(engine.HostModule))), engine.HostModule...)
		out = append(append(out, byte(len(engine.HostCheck))), engine.HostCheck...)
		return binary.AppendUvarint(append(out, 0), uint64(m.types))
	default: // a mutable i32 that starts with a full slice
		out = append(out, rest...)
		out = append(out, 0x7f, 1, 0x41)
		out = appendSigned(out, fuelSlice)
		return append(out, 0x0b)
	}
}

func (m *meterer) rewriteGlobals(body []byte) []byte {
	c := &cursor{data: body}
	n := c.u32()
	out := binary.AppendUvarint(nil, uint64(n))
	for ; n > 0; n-- {
		out = append(out, c.take(2)...)
		out = m.expression(c, out, 0, false)
	}
	return out
}

func (m *meterer) rewriteExports(body []byte) []byte {
	c := &cursor{data: body}
	n := c.u32()
	out := binary.AppendUvarint(nil, uint64(n))
	for ; n > 0; n-- {
		name := c.take(c.u32())
		out = append(binary.AppendUvarint(out, uint64(len(name))), name...)
		kind, index := c.byte(), c.u32()
		switch {
		case kind == 0:
			index = m.function(index)
		case kind == 3 && index >= m.globals:
			c.fail("exported global")
		}
		out = binary.AppendUvarint(append(out, kind), uint64(index))
	}
	return out
}

func (m *meterer) rewriteElements(body []byte) []byte {
	c := &cursor{data: body}
	n := c.u32()
	out := binary.AppendUvarint(nil, uint64(n))
	for ; n > 0; n-- {
		flags := c.u32()
		if flags > 7 {
			c.fail("element segment")
		}
		out = binary.AppendUvarint(out, uint64(flags))
		if flags&1 == 0 { // active
			if flags&2 != 0 {
				out = binary.AppendUvarint(out, uint64(c.u32()))
			}
			out = m.expression(c, out, 0, false)
		}
		if flags&3 != 0 {
			out = append(out, c.byte()) // element kind or reference type
		}
		k := c.u32()
		out = binary.AppendUvarint(out, uint64(k))
		for ; k > 0; k-- {
			if flags&4 != 0 {
				out = m.expression(c, out, 0, false)
			} else {
				out = binary.AppendUvarint(out, uint64(m.function(c.u32())))
			}
		}
	}
	return out
}

func (m *meterer) rewriteCode(body []byte) []byte {
	c := &cursor{data: body}
	n := c.u32()
	out := binary.AppendUvarint(make([]byte, 0, len(body)+len(body)/8), uint64(n))
	if n != uint32(len(m.typed)) {
		c.fail("functions without a body or a type")
	}
	var scratch []byte
	for i := range n {
		f := &cursor{data: c.take(c.u32())}
		groups, declared := f.u32(), uint64(0)
		first := f.at
		for range groups {
			declared += uint64(f.u32())
			f.byte()
		}
		locals := f.data[first:f.at]
		if declared > maxLocals {
			f.fail("locals")
		}
		cost := int32(min(1+len(f.data)/fuelBytes, bulkFuel))
		m.local = m.params[m.typed[i]] + uint32(declared)
		f.straight = true
		scratch = m.expression(f, scratch[:0], cost, true)
		if f.more() {
			f.fail("bytes behind a function")
		}
		// One more local, which charges need.
		head := binary.AppendUvarint(nil, uint64(groups)+1)
		head = append(append(head, locals...), 1, 0x7f)
		if f.calls && !f.headed {
			head = m.charge(head, cost)
		}
		out = binary.AppendUvarint(out, uint64(len(head)+len(scratch)))
		out = append(append(out, head...), scratch...)
	}
	return out
}

// charge appends: fuel -= cost; if fuel < 0 { check(); fuel = slice }.
func (m *meterer) charge(out []byte, cost int32) []byte {
	out = m.global(out, 0x23)
	out = appendSigned(append(out, 0x41), cost)
	return m.spend(out)
}

// chargeSize appends, before an operation on memory whose size lies on the
// stack: fuel -= size >> bulkShift; if fuel < 0 { check(); fuel = slice }.
func (m *meterer) chargeSize(out []byte) []byte {
	out = binary.AppendUvarint(append(out, 0x22), uint64(m.local)) // local.tee
	out = m.global(out, 0x23)
	out = binary.AppendUvarint(append(out, 0x20), uint64(m.local)) // local.get
	out = append(appendSigned(append(out, 0x41), bulkShift), 0x76) // i32.shr_u
	return m.spend(out)
}

// spend appends what is left to do with the fuel and the cost on the stack. The
// new fuel is compared from a local: globals live in memory.
func (m *meterer) spend(out []byte) []byte {
	out = binary.AppendUvarint(append(out, 0x6b, 0x22), uint64(m.local)) // i32.sub, local.tee
	out = m.global(out, 0x24)
	out = binary.AppendUvarint(append(out, 0x20), uint64(m.local))
	out = append(out, 0x41, 0, 0x48, 0x04, 0x40) // i32.const 0, i32.lt_s, if
	out = binary.AppendUvarint(append(out, 0x10), uint64(m.imports))
	out = appendSigned(append(out, 0x41), fuelSlice)
	return append(m.global(out, 0x24), 0x0b)
}

// global appends an instruction about the fuel.
func (m *meterer) global(out []byte, op byte) []byte {
	return binary.AppendUvarint(append(out, op), uint64(m.globals))
}

// expression copies instructions up to the end that closes the expression,
// shifting function indexes and, in code, adding charges.
func (m *meterer) expression(c *cursor, out []byte, cost int32, code bool) []byte {
	for depth := 1; depth > 0; {
		start := c.at
		op := c.byte()
		switch {
		case op == 0x02 || op == 0x03 || op == 0x04:
			depth++
			c.leb()
			out = append(out, c.data[start:c.at]...)
			if op == 0x03 && code {
				out = m.charge(out, cost)
				c.headed = c.headed || c.straight
			}
			c.straight = c.straight && op != 0x04
			continue
		case op == 0x0b:
			depth--
			c.straight = false
		case op == 0x0c || op == 0x0d:
			c.straight = false
			c.u32()
		case op == 0x0e:
			c.straight = false
			for n := c.u32(); n > 0; n-- {
				c.u32()
			}
			c.u32()
		case op == 0x10 || op == 0xd2:
			c.calls = c.calls || op == 0x10
			c.straight = c.straight && op != 0x10
			out = binary.AppendUvarint(append(out, op), uint64(m.function(c.u32())))
			continue
		case op == 0x11:
			c.calls, c.straight = true, false
			c.u32()
			c.u32()
		case op == 0x1c:
			c.take(c.u32())
		case op == 0x23 || op == 0x24:
			if c.u32() >= m.globals {
				c.fail("global")
			}
		case op >= 0x20 && op <= 0x26:
			c.u32()
		case op >= 0x28 && op <= 0x3e:
			c.u32()
			c.u32()
		case op == 0x3f:
			c.byte()
		case op == 0x40:
			c.byte()
			if code {
				out = m.charge(out, bulkFuel)
			}
		case op == 0x41 || op == 0x42:
			c.leb()
		case op == 0x43:
			c.take(4)
		case op == 0x44:
			c.take(8)
		case op == 0xd0:
			c.byte()
		case op == 0xfc:
			switch c.bulk() {
			case onMemory:
				if code {
					out = m.chargeSize(out)
				}
			case onTable:
				if code {
					out = m.charge(out, bulkFuel)
				}
			}
		case op == 0xfd:
			c.vector()
		case op == 0x0f:
			c.straight = false
		case op <= 0x01, op == 0x05, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
		default:
			c.fail(fmt.Sprintf("instruction %#x%s", op, featureOf(op)))
		}
		out = append(out, c.data[start:c.at]...)
	}
	return out
}

// featureOf names the feature of WebAssembly that an instruction belongs to, of those
// that a module may not use.
func featureOf(op byte) string {
	switch {
	case op == 0x12 || op == 0x13:
		return " (a tail call); build without tail calls: clang -mno-tail-call, rustc -C target-feature=-tail-call"
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return " (exception handling); build without exceptions: clang -mno-exception-handling"
	case op == 0xfe:
		return " (threads); build without atomics: clang -mno-atomics"
	case op == 0xfb, op >= 0xd3 && op <= 0xd6, op == 0x14, op == 0x15:
		return " (garbage collection or typed references); build for WebAssembly 2.0 with SIMD at most"
	}
	return ""
}
