package wasmworker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/sdk/abi"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// hostFunctions are those that are carried out in the kernel, by their numbers in
// frames.
var hostFunctions = append(protocol.Operations(), protocol.FunctionLog)

// grace is how much longer than a call may last the kernel waits for the worker to
// say that it ended: beyond that it hangs.
func grace(patience time.Duration) time.Duration { return patience/2 + 50*time.Millisecond }

// Worker is the process, as the kernel sees it.
type Worker struct {
	control *net.UnixConn
	kill    func()

	mu   sync.Mutex
	lost error // why it is of no use any more
}

// Connect makes a worker of a process that runs Main at the other end of the
// connection, which the worker owns. kill ends the process.
func Connect(control *net.UnixConn, kill func()) *Worker {
	return &Worker{control: control, kill: kill}
}

// Lost is why the worker is of no use any more, or nil.
func (w *Worker) Lost() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// lose ends the process: what it does next cannot be told.
func (w *Worker) lose(err error) error {
	w.mu.Lock()
	if w.lost == nil {
		w.lost = err
	}
	w.mu.Unlock()
	w.kill()
	return err
}

// Close ends the process.
func (w *Worker) Close() error {
	w.kill()
	return w.control.Close()
}

// Load hands the module over, and returns what it imports. Code is its machine code
// under the name that wazero gives it, or nil.
func (w *Worker) Load(module []byte, code *os.File, name string, memory int64, folders []string, patience time.Duration) ([]engine.Import, error) {
	text, err := sealed("pintle-module", int64(len(module)), unix.F_SEAL_WRITE, func(view []byte) { copy(view, module) })
	if err != nil {
		return nil, err
	}
	defer text.Close()
	if err := w.control.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, w.lose(err)
	}
	files := []*os.File{text}
	if code != nil {
		files = append(files, code)
	} else {
		name = ""
	}
	if err := send(w.control, load{int64(len(module)), memory, folders, name}, files...); err != nil {
		return nil, w.lose(fmt.Errorf("worker: %w", err))
	}
	var said loaded
	if err := answer(w.control, &said); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("it did not load the module within %s", patience)
		}
		return nil, w.lose(fmt.Errorf("worker: %w", err))
	}
	if said.Error != "" {
		return nil, errors.New(said.Error)
	}
	return said.Imports, nil
}

// sealed is a file in memory whose size stays, and whose content does too if told so.
func sealed(name string, size int64, seals int, fill func([]byte)) (_ *os.File, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err = f.Truncate(size); err != nil {
		return nil, err
	}
	if fill != nil {
		view, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, os.NewSyscallError("mmap", err)
		}
		fill(view)
		if err := unix.Munmap(view); err != nil {
			return nil, os.NewSyscallError("munmap", err)
		}
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return f, nil
}

// Caller is whose instance it is: it carries out host functions and knows the time
// that a call has.
type Caller interface {
	engine.Host
	// Patience is how long the next call may last.
	Patience() time.Duration
	// Sliced notes when the call under way looked at the clock for the first time.
	Sliced(at time.Time)
}

// Instance is one of the module. One goroutine at a time calls it.
type Instance struct {
	worker    *Worker
	caller    Caller
	out       io.Writer
	conn      *net.UnixConn
	in        reader
	buffer    []byte
	space     *engine.LinearMemory
	exported  bool // its memory
	functions []function
}

// Instantiate makes a fresh instance and runs its start functions. What it prints goes
// to out. Size is what it may have of memory.
func (w *Worker) Instantiate(caller Caller, out io.Writer, size int64) (_ *Instance, err error) {
	if err := w.Lost(); err != nil {
		return nil, err
	}
	memory, err := sealed("pintle-memory", size, 0, nil)
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	i := &Instance{worker: w, caller: caller, out: out, conn: ours, in: reader{from: ours}}
	defer func() {
		if err != nil {
			i.Close()
		}
	}()
	mapped, err := unix.Mmap(int(memory.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	i.space = engine.Share(mapped)
	w.mu.Lock()
	err = w.control.SetDeadline(time.Now().Add(caller.Patience()))
	if err == nil {
		err = send(w.control, begin{size}, theirs, memory)
	}
	w.mu.Unlock()
	if err != nil {
		return nil, w.lose(fmt.Errorf("worker: %w", err))
	}
	i.buffer = binary.LittleEndian.AppendUint64(beginFrame(i.buffer, frameStart), uint64(caller.Patience()))
	body, err := i.ask(frameStarted)
	if err != nil {
		return nil, err
	}
	var said started
	if err := json.Unmarshal(body, &said); err != nil {
		return nil, w.lose(fmt.Errorf("worker: %w", err))
	}
	if said.Deadline {
		return nil, engine.ErrDeadline
	}
	if said.Error != "" {
		return nil, errors.New(said.Error)
	}
	if err := i.grow(said.Used); err != nil {
		return nil, err
	}
	known := abi.Exports()
	if len(said.Functions) > len(known) {
		return nil, w.lose(fmt.Errorf("worker: %w: %d functions", errFrame, len(said.Functions)))
	}
	i.exported, i.functions = said.Memory, said.Functions
	return i, nil
}

// grow takes note of how much memory the module has now.
func (i *Instance) grow(used uint64) error {
	if used == i.space.Used() {
		return nil
	}
	if used < i.space.Used() || i.space.Reallocate(used) == nil {
		return i.worker.lose(fmt.Errorf("worker: %w: the module has %d bytes of %d", errFrame, used, len(i.space.Mapped())))
	}
	return nil
}

// ask writes the frame in the buffer and carries out what the module asks for, until
// the frame comes that ends it.
func (i *Instance) ask(end byte) ([]byte, error) {
	patience := i.caller.Patience()
	began := time.Now()
	if err := i.conn.SetDeadline(began.Add(patience + grace(patience))); err != nil {
		return nil, i.lost(err)
	}
	if _, err := i.conn.Write(endFrame(i.buffer)); err != nil {
		return nil, i.lost(err)
	}
	for {
		kind, body, err := i.in.next()
		if err != nil {
			return nil, i.lost(err)
		}
		switch {
		case kind == end:
			return body, nil
		case kind == frameOutput && len(body) <= maxOutput:
			_, _ = i.out.Write(body)
			continue
		case kind == frameOperated && len(body) == 17 && int(body[0]) < len(hostFunctions):
			i.caller.Sliced(began)
			if err := i.grow(binary.LittleEndian.Uint64(body[9:])); err != nil {
				return nil, err
			}
			err = i.carryOut(func() uint32 {
				return i.caller.Operated(memory{i.space}, hostFunctions[body[0]], binary.LittleEndian.Uint32(body[1:]), binary.LittleEndian.Uint32(body[5:]))
			})
		case kind == frameHandOver && len(body) == 16:
			if err := i.grow(binary.LittleEndian.Uint64(body[8:])); err != nil {
				return nil, err
			}
			err = i.carryOut(func() uint32 {
				i.caller.HandOver(memory{i.space}, binary.LittleEndian.Uint32(body), binary.LittleEndian.Uint32(body[4:]))
				return 0
			})
		default:
			err = i.worker.lose(fmt.Errorf("worker: %w: %d with %d bytes", errFrame, kind, len(body)))
		}
		if err != nil {
			return nil, err
		}
	}
}

// carryOut runs a host function and answers; its panic is a trap of the module.
func (i *Instance) carryOut(run func() uint32) error {
	outcome, size, words := byte(outcomeGood), uint32(0), ""
	func() {
		defer func() {
			switch p := recover().(type) {
			case nil:
			case error:
				outcome, words = outcomeTrap, p.Error()
				if errors.Is(p, engine.ErrDeadline) {
					outcome = outcomeDeadline
				}
			default:
				panic(p)
			}
		}()
		size = run()
	}()
	out := append(beginFrame(nil, frameAnswered), outcome)
	out = binary.LittleEndian.AppendUint32(out, size)
	out = append(out, words[:min(len(words), maxWords)]...)
	if _, err := i.conn.Write(endFrame(out)); err != nil {
		return i.lost(err)
	}
	return nil
}

// lost gives the worker up after an error of the connection.
func (i *Instance) lost(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = i.worker.lose(errors.New("worker: it hung"))
		return engine.ErrDeadline
	case errors.Is(err, io.EOF), errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return i.worker.lose(errors.New("worker: its process ended"))
	}
	return i.worker.lose(fmt.Errorf("worker: %w", err))
}

// Memory is that of the module; nil where it exports none.
func (i *Instance) Memory() engine.Memory {
	if !i.exported {
		return nil
	}
	return memory{i.space}
}

// Linear is the memory as it is mapped.
func (i *Instance) Linear() *engine.LinearMemory { return i.space }

// Function is one that the module exports, and its signature; nil: there is none.
func (i *Instance) Function(name string) (*Function, string) {
	at := slices.IndexFunc(i.functions, func(f function) bool { return f.Name == name })
	if at < 0 {
		return nil, ""
	}
	return &Function{i, uint16(at)}, i.functions[at].Signature
}

// Close lets go of the instance; nobody looks at its memory any more.
func (i *Instance) Close() error {
	err := i.conn.Close()
	if i.space != nil {
		i.space.Unmap()
	}
	return err
}

// Function is one of an instance.
type Function struct {
	instance *Instance
	at       uint16
}

// CallWithStack calls with what lies on the stack; the result replaces it.
func (f *Function) CallWithStack(_ context.Context, stack []uint64) error {
	i := f.instance
	began := time.Now()
	out := binary.LittleEndian.AppendUint16(beginFrame(i.buffer, frameCall), f.at)
	out = binary.LittleEndian.AppendUint64(out, uint64(i.caller.Patience()))
	i.buffer = appendStack(out, stack)
	body, err := i.ask(frameDone)
	if err != nil {
		return err
	}
	if len(body) < 17+8*stackWords {
		return i.worker.lose(fmt.Errorf("worker: %w: %d bytes at a call's end", errFrame, len(body)))
	}
	if sliced := int64(binary.LittleEndian.Uint64(body[1:])); sliced >= 0 {
		i.caller.Sliced(began.Add(min(time.Duration(sliced), i.caller.Patience())))
	}
	if err := i.grow(binary.LittleEndian.Uint64(body[9:])); err != nil {
		return err
	}
	takeStack(body[17:], stack)
	switch body[0] {
	case outcomeGood:
		return nil
	case outcomeDeadline:
		return engine.ErrDeadline
	}
	return errors.New(string(body[17+8*stackWords:]))
}

// memory is bounded by what the module has.
type memory struct{ *engine.LinearMemory }

func (m memory) Size() uint32 { return uint32(min(m.Used(), 1<<32-1)) }

func (m memory) Read(offset, size uint32) ([]byte, bool) {
	end := uint64(offset) + uint64(size)
	if end > m.Used() {
		return nil, false
	}
	return m.Mapped()[offset:end:end], true
}

func (m memory) Write(offset uint32, data []byte) bool {
	view, ok := m.Read(offset, uint32(len(data)))
	if ok {
		copy(view, data)
	}
	return ok
}

// socketPair makes a connection with a process that has the other end.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	end := os.NewFile(uintptr(fds[0]), "instance")
	defer end.Close()
	theirs = os.NewFile(uintptr(fds[1]), "instance")
	conn, err := net.FileConn(end)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil
}
