package wasmworker

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/engine"
	"pintle.dev/pintle/sdk/abi"
)

// caller is the kernel's side of an instance.
type caller struct {
	patience time.Duration
	asked    []string
	handed   []uint32
	trap     error
}

func (c *caller) Patience() time.Duration { return c.patience }
func (c *caller) Sliced(time.Time)        {}
func (c *caller) Late()                   {}

func (c *caller) Operated(m engine.Memory, function string, pointer, size uint32) uint32 {
	view, ok := m.Read(pointer, size)
	if !ok {
		panic(errors.New("outside of its memory"))
	}
	if c.trap != nil {
		panic(c.trap)
	}
	c.asked = append(c.asked, function+" "+string(view))
	return 7
}

func (c *caller) HandOver(m engine.Memory, pointer, size uint32) {
	if !m.Write(pointer, make([]byte, size)) {
		panic(errors.New("outside of its memory"))
	}
	c.handed = append(c.handed, pointer, size)
}

// hostile is a process that says what it wants; the test plays it.
type hostile struct {
	*Worker
	control *net.UnixConn
	killed  atomic.Bool
	ends    chan struct{}
}

// newHostile runs a worker's part until the test ends.
func newHostile(t *testing.T, part func(h *hostile)) *hostile {
	t.Helper()
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(theirs)
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	h := &hostile{control: conn.(*net.UnixConn), ends: make(chan struct{})}
	h.Worker = Connect(ours, func() { h.killed.Store(true); h.control.Close() })
	go func() {
		defer close(h.ends)
		part(h)
	}()
	t.Cleanup(func() {
		_ = h.Close()
		<-h.ends
	})
	return h
}

// begin takes an instance and says what it is.
func (h *hostile) begin(said any) (*os.File, *os.File) {
	var b begin
	files, err := receive(h.control, &b)
	if err != nil || len(files) != 2 {
		return nil, nil
	}
	in := reader{from: files[0]}
	if _, _, err := in.next(); err != nil {
		return nil, nil
	}
	words, ok := said.([]byte)
	if !ok {
		words, _ = json.Marshal(said)
	}
	_, _ = files[0].Write(endFrame(append(beginFrame(nil, frameStarted), words...)))
	return files[0], files[1]
}

var sound = started{Memory: true, Used: engine.Page, Functions: []function{{Name: "pintle_filter", Signature: "iiiii:i"}}}

func done(outcome byte, used uint64, words string) []byte {
	out := append(beginFrame(nil, frameDone), outcome)
	out = binary.LittleEndian.AppendUint64(out, uint64(0xffff_ffff_ffff_ffff))
	out = binary.LittleEndian.AppendUint64(out, used)
	return endFrame(append(appendStack(out, []uint64{1, 2, 3}), words...))
}

func raw(kind byte, body ...byte) []byte { return endFrame(append(beginFrame(nil, kind), body...)) }

// Whatever a worker says in the midst of a call, the call fails at its deadline at
// the latest, nothing outside of the instance's memory is touched, and the process is
// ended.
func TestWorkerThatTalksNonsense(t *testing.T) {
	for name, c := range map[string]struct {
		says   []byte
		closes bool
		want   string
	}{
		"unknown frame":             {says: raw(99), want: "a frame that is none: 99"},
		"frame of the kernel's":     {says: raw(frameCall, make([]byte, 58)...), want: "a frame that is none"},
		"started again":             {says: raw(frameStarted, '{', '}'), want: "a frame that is none"},
		"gigabytes":                 {says: []byte{0xff, 0xff, 0xff, 0x7f, frameDone}, want: "a frame that is none: 2147483647 bytes"},
		"end without numbers":       {says: raw(frameDone), want: "0 bytes at a call's end"},
		"end cut off":               {says: done(outcomeGood, engine.Page, "")[:40], closes: true, want: "worker: "},
		"memory beyond the file":    {says: done(outcomeGood, 1<<40, ""), want: "the module has 1099511627776 bytes"},
		"memory that shrinks":       {says: done(outcomeGood, 1, ""), want: "the module has 1 bytes"},
		"host function without one": {says: raw(frameOperated, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0), want: "a frame that is none"},
		"host function cut off":     {says: raw(frameOperated, 0), want: "a frame that is none"},
		"answer cut off":            {says: raw(frameHandOver, 1, 2, 3), want: "a frame that is none"},
		"gone":                      {closes: true, want: "its process ended"},
		"hangs":                     {want: engine.ErrDeadline.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, func(h *hostile) {
				socket, memory := h.begin(sound)
				if socket == nil {
					return
				}
				defer memory.Close()
				_, _ = socket.Write(c.says)
				if c.closes {
					socket.Close()
					return
				}
				_, _ = io.Copy(io.Discard, socket)
				socket.Close()
			})
			me := &caller{patience: 2 * time.Minute}
			if c.want == engine.ErrDeadline.Error() {
				me.patience = 20 * time.Millisecond
			}
			i, err := h.Instantiate(me, io.Discard, 16*engine.Page)
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			f, signature := i.Function("pintle_filter")
			if f == nil || signature != "iiiii:i" {
				t.Fatalf("%v, %q", f, signature)
			}
			stack := []uint64{9, 9, 9, 9, 9, 9}
			if err := f.CallWithStack(t.Context(), stack); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if !h.killed.Load() || h.Lost() == nil {
				t.Error("the process goes on")
			}
			if _, err := h.Instantiate(me, io.Discard, 16*engine.Page); err == nil {
				t.Error("a further instance in what is lost")
			}
		})
	}
}

// An instance that is none is refused.
func TestInstanceOfNonsense(t *testing.T) {
	many := sound
	for range len(abi.Exports()) + 1 {
		many.Functions = append(many.Functions, function{Name: "x"})
	}
	large := sound
	large.Used = 1 << 50
	for name, c := range map[string]struct {
		said any
		want string
		goes bool // on: the module is to blame
	}{
		"no JSON":         {[]byte("<"), "invalid character", false},
		"many functions":  {many, "functions", false},
		"too much memory": {large, "bytes of", false},
		"late":            {started{Deadline: true}, engine.ErrDeadline.Error(), true},
		"failed":          {started{Error: "unreachable"}, "unreachable", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t, func(h *hostile) {
				if socket, memory := h.begin(c.said); socket != nil {
					_, _ = io.Copy(io.Discard, socket)
					socket.Close()
					memory.Close()
				}
			})
			_, err := h.Instantiate(&caller{patience: 2 * time.Minute}, io.Discard, 16*engine.Page)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if h.killed.Load() == c.goes {
				t.Errorf("killed: %v", h.killed.Load())
			}
		})
	}
}

// What the worker does to the memory changes what the kernel reads, and nothing else:
// it stays as large as it is, so that no look at it can fail.
func TestSharedMemoryStays(t *testing.T) {
	results := make(chan error, 3)
	h := newHostile(t, func(h *hostile) {
		socket, memory := h.begin(sound)
		if socket == nil {
			return
		}
		defer memory.Close()
		results <- memory.Truncate(0)
		results <- memory.Truncate(1 << 40)
		_, err := unix.FcntlInt(memory.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
		results <- err
		_, _ = io.Copy(io.Discard, socket)
		socket.Close()
	})
	i, err := h.Instantiate(&caller{patience: 2 * time.Minute}, io.Discard, 16*engine.Page)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	for _, what := range []string{"shrink", "grow", "seal"} {
		if err := <-results; !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want EPERM", what, err)
		}
	}
	m := i.Memory()
	for _, c := range []struct {
		offset, size uint32
		ok           bool
	}{{0, engine.Page, true}, {engine.Page - 1, 1, true}, {engine.Page, 0, true}, {engine.Page, 1, false}, {0xffffffff, 0xffffffff, false}, {8, engine.Page, false}} {
		if view, ok := m.Read(c.offset, c.size); ok != c.ok || ok && uint32(len(view)) != c.size {
			t.Errorf("read %d at %d: %d bytes, %v", c.size, c.offset, len(view), ok)
		}
	}
	if m.Write(engine.Page-1, []byte{1, 2}) {
		t.Error("written beyond the memory")
	}
}

// Host functions are carried out with what lies in the module's memory; what goes
// wrong is told to the module, and the call goes on.
func TestHostFunctions(t *testing.T) {
	span := func(numbers ...uint32) (b []byte) {
		for _, n := range append(numbers, engine.Page, 0) {
			b = binary.LittleEndian.AppendUint32(b, n)
		}
		return b
	}
	for name, c := range map[string]struct {
		says []byte
		trap error
		want byte // outcome
	}{
		"get":                     {raw(frameOperated, append([]byte{0}, span(8, 3)...)...), nil, outcomeGood},
		"request outside":         {raw(frameOperated, append([]byte{0}, span(engine.Page, 1)...)...), nil, outcomeTrap},
		"request of 4 GiB":        {raw(frameOperated, append([]byte{0}, span(0xffffffff, 0xffffffff)...)...), nil, outcomeTrap},
		"answer outside":          {raw(frameHandOver, span(engine.Page-1, 2)...), nil, outcomeTrap},
		"answer":                  {raw(frameHandOver, span(16, 8)...), nil, outcomeGood},
		"its time is up":          {raw(frameOperated, append([]byte{0}, span(8, 3)...)...), engine.ErrDeadline, outcomeDeadline},
		"the host function fails": {raw(frameOperated, append([]byte{0}, span(8, 3)...)...), errors.New("not granted"), outcomeTrap},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan []byte, 1)
			h := newHostile(t, func(h *hostile) {
				socket, memory := h.begin(sound)
				if socket == nil {
					return
				}
				defer socket.Close()
				defer memory.Close()
				in := reader{from: socket}
				if _, _, err := in.next(); err != nil {
					return
				}
				_, _ = socket.Write(raw(frameOutput, []byte("a line\n")...))
				_, _ = socket.Write(c.says)
				_, body, err := in.next()
				if err != nil {
					return
				}
				got <- append([]byte(nil), body...)
				_, _ = socket.Write(done(outcomeTrap, engine.Page, "as it was told"))
			})
			var out strings.Builder
			i, err := h.Instantiate(&caller{patience: 2 * time.Minute, trap: c.trap}, &out, 16*engine.Page)
			if err != nil {
				t.Fatal(err)
			}
			defer i.Close()
			f, _ := i.Function("pintle_filter")
			if err := f.CallWithStack(t.Context(), make([]uint64, 6)); err == nil || err.Error() != "as it was told" {
				t.Errorf("call: %v", err)
			}
			if answered := <-got; answered[0] != c.want {
				t.Errorf("outcome %d, want %d: %s", answered[0], c.want, answered[5:])
			}
			if out.String() != "a line\n" || h.killed.Load() {
				t.Errorf("printed %q, killed %v", out.String(), h.killed.Load())
			}
		})
	}
}

// A worker that does not take its module, or not in time, is ended.
func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		part func(h *hostile)
		want string
		goes bool
	}{
		"gone":  {func(h *hostile) { h.control.Close() }, "", false},
		"hangs": {func(h *hostile) { _, _ = io.Copy(io.Discard, h.control) }, "it did not load the module within", false},
		"refuses": {func(h *hostile) {
			var l load
			_, _ = receive(h.control, &l)
			_ = send(h.control, loaded{Error: "invalid magic number"})
		}, "invalid magic number", true},
		"megabytes": {func(h *hostile) {
			var l load
			_, _ = receive(h.control, &l)
			_, _ = h.control.Write([]byte{0xff, 0xff, 0xff, 0x7f})
			_, _ = io.Copy(io.Discard, h.control)
		}, "message of 2147483647 bytes", false},
	} {
		t.Run(name, func(t *testing.T) {
			h, limit := newHostile(t, c.part), 2*time.Minute
			if name == "hangs" {
				limit = 100 * time.Millisecond
			}
			if _, err := h.Load([]byte("module"), nil, "", 1<<20, nil, limit); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if h.killed.Load() == c.goes {
				t.Errorf("killed: %v", h.killed.Load())
			}
		})
	}
}
