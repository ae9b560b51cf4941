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
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/sdk/abi"
)

const (
	// Program is the small program that is a worker and nothing else.
	Program = "pintle-wasm-worker"
	// Variable is in the environment of a process that shall be a worker.
	Variable = "PINTLE_WASM_WORKER"
	// controlDescriptor is where the kernel speaks to it.
	controlDescriptor = 3
)

// A binary that this package is linked into is a worker too.
func init() {
	if len(os.Args) == 1 && os.Getenv(Variable) == "1" {
		Main()
	}
}

// Executable is the program of workers: the small one beside this program, or this.
func Executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(exe), Program)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
		return path, nil
	}
	return exe, nil
}

// Main is a worker until the kernel closes its end. It never returns.
func Main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "pintle-wasm-worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	f := os.NewFile(controlDescriptor, "control")
	conn, err := net.FileConn(f)
	if err != nil {
		return fmt.Errorf("%w: the kernel starts this program", err)
	}
	f.Close()
	control, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("descriptor 3 is no socket: the kernel starts this program")
	}
	var l load
	files, err := receive(control, &l)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	module, err := loadModule(&l, files)
	for _, f := range files {
		f.Close()
	}
	if err != nil {
		return send(control, loaded{Error: err.Error()})
	}
	if err := send(control, loaded{Imports: module.Imports()}); err != nil {
		return err
	}
	for {
		var b begin
		files, err := receive(control, &b)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(files) != 2 {
			return fmt.Errorf("%d files for an instance", len(files))
		}
		go (&guest{socket: files[0], in: reader{from: files[0]}}).serve(module, files[1], b.Size)
	}
}

// loadModule takes the machine code that the kernel has, or compiles.
func loadModule(l *load, files []*os.File) (*engine.Module, error) {
	if len(files) == 0 || l.Code != "" && len(files) != 2 || l.Code != filepath.Base(l.Code) && l.Code != "" {
		return nil, errors.New("a module without its files")
	}
	text, err := unix.Mmap(int(files[0].Fd()), 0, int(l.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	cache := wazero.NewCompilationCache()
	if l.Code != "" {
		dir, err := os.MkdirTemp("", "wazero-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		if cache, err = wazero.NewCompilationCacheWithDir(dir); err != nil {
			return nil, err
		}
		inside, err := os.ReadDir(dir)
		if err != nil || len(inside) != 1 {
			return nil, fmt.Errorf("wazero made %d folders, want one", len(inside))
		}
		if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", files[1].Fd()), filepath.Join(dir, inside[0].Name(), l.Code)); err != nil {
			return nil, err
		}
	}
	m, err := engine.Compile(context.Background(), text, cache, l.Memory)
	if err != nil {
		return nil, err
	}
	if err := m.Open(l.Folders); err != nil {
		return nil, err
	}
	return m, nil
}

// guest is an instance, as the worker has it.
type guest struct {
	socket    *os.File
	in        reader
	buffer    []byte
	instance  api.Module
	memory    *engine.LinearMemory
	functions []api.Function
	ctx       context.Context

	began    time.Time
	deadline time.Time // zero until somebody asks for it
	patience time.Duration
}

var (
	_ engine.Host = (*guest)(nil)
	_ io.Writer   = (*guest)(nil)
)

// serve answers until the kernel lets go of the instance.
func (g *guest) serve(m *engine.Module, memory *os.File, size int64) {
	defer g.socket.Close()
	mapped, err := unix.Mmap(int(memory.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	memory.Close()
	if err != nil {
		fmt.Fprintln(os.Stderr, "map the memory of an instance:", err)
		return
	}
	g.memory, g.ctx = engine.Share(mapped), engine.Context(g)
	defer g.memory.Unmap()
	kind, body, err := g.in.next()
	if err != nil || kind != frameStart || len(body) != 8 {
		return
	}
	g.patience, g.deadline = time.Duration(binary.LittleEndian.Uint64(body)), time.Time{}
	said := started{}
	g.instance, err = m.Instantiate(g, g.memory, g)
	if err == nil {
		defer g.instance.Close(context.Background())
		said.Memory, said.Used = g.instance.ExportedMemory(abi.Memory) != nil, g.memory.Used()
		for _, e := range abi.Exports() {
			if f := g.instance.ExportedFunction(e.Name); f != nil {
				g.functions = append(g.functions, f)
				said.Functions = append(said.Functions, function{e.Name, engine.Signature(f.Definition())})
			}
		}
	} else {
		said.Error, said.Deadline = shortened(err), errors.Is(err, engine.ErrDeadline)
	}
	words, err := json.Marshal(said)
	if err != nil || g.write(append(beginFrame(g.buffer, frameStarted), words...)) != nil || g.instance == nil {
		return
	}
	var stack [stackWords]uint64
	for {
		kind, body, err := g.in.next()
		if err != nil || kind != frameCall || len(body) != 10+8*stackWords {
			return
		}
		at := int(binary.LittleEndian.Uint16(body))
		if at >= len(g.functions) {
			return
		}
		g.deadline, g.patience = time.Time{}, time.Duration(binary.LittleEndian.Uint64(body[2:]))
		takeStack(body[10:], stack[:])
		g.began = time.Now()
		err = g.functions[at].CallWithStack(g.ctx, stack[:])
		out, sliced := beginFrame(g.buffer, frameDone), int64(notSliced)
		if !g.deadline.IsZero() {
			sliced = int64(g.deadline.Add(-g.patience).Sub(g.began))
		}
		switch {
		case err == nil:
			out = append(out, outcomeGood)
		case errors.Is(err, engine.ErrDeadline):
			out = append(out, outcomeDeadline)
		default:
			out = append(out, outcomeTrap)
		}
		out = binary.LittleEndian.AppendUint64(out, uint64(sliced))
		out = binary.LittleEndian.AppendUint64(out, g.memory.Used())
		out = appendStack(out, stack[:])
		if err != nil {
			out = append(out, shortened(err)...)
		}
		if g.write(out) != nil {
			return
		}
		g.buffer = out
	}
}

// shortened is the first line of an error: wazero's carry a stack trace.
func shortened(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), maxWords)]
}

func (g *guest) write(frame []byte) error {
	_, err := g.socket.Write(endFrame(frame))
	return err
}

// Late implements engine.Host.
func (g *guest) Late() {
	if g.deadline.IsZero() {
		g.deadline = time.Now().Add(g.patience)
	}
	if time.Now().After(g.deadline) {
		panic(engine.ErrDeadline)
	}
}

// Write sends what the module prints.
func (g *guest) Write(p []byte) (int, error) {
	g.Late()
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxOutput)
		if err := g.write(append(beginFrame(nil, frameOutput), rest[:n]...)); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// Operated implements engine.Host: the kernel does it.
func (g *guest) Operated(_ engine.Memory, function string, pointer, size uint32) uint32 {
	for k, name := range hostFunctions {
		if name == function {
			out := append(beginFrame(nil, frameOperated), byte(k))
			out = binary.LittleEndian.AppendUint32(out, pointer)
			return g.ask(binary.LittleEndian.AppendUint32(out, size))
		}
	}
	panic(fmt.Errorf("host function %s is not known", function))
}

// HandOver implements engine.Host: the kernel writes into the memory.
func (g *guest) HandOver(_ engine.Memory, pointer, size uint32) {
	out := binary.LittleEndian.AppendUint32(beginFrame(nil, frameHandOver), pointer)
	g.ask(binary.LittleEndian.AppendUint32(out, size))
}

// ask asks the kernel in the midst of a call.
func (g *guest) ask(frame []byte) uint32 {
	g.Late()
	if err := g.write(binary.LittleEndian.AppendUint64(frame, g.memory.Used())); err != nil {
		panic(err)
	}
	kind, body, err := g.in.next()
	switch {
	case err != nil:
		panic(err)
	case kind != frameAnswered || len(body) < 5:
		panic(errFrame)
	case body[0] == outcomeDeadline:
		panic(engine.ErrDeadline)
	case body[0] != outcomeGood:
		panic(errors.New(string(body[5:])))
	}
	return binary.LittleEndian.Uint32(body[1:])
}
