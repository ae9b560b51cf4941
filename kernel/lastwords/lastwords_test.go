//go:build linux && (amd64 || arm64) && !race

package lastwords

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the process that ends and the program that it becomes, too.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "explain":
		explain(os.Args[2])
	case os.Getenv("LASTWORDS_TEST") != "":
		end(os.Getenv("LASTWORDS_TEST"), os.Getenv("LASTWORDS_FILE"))
	default:
		os.Exit(m.Run())
	}
}

const explained = 7

func explain(file string) {
	trace, err := Read()
	if err == nil {
		err = Keep(file, trace)
	}
	fmt.Fprintf(os.Stderr, "process %d ended: %v, asked %v\n", os.Getpid(), err, Asked(trace))
	os.Exit(explained)
}

var sink byte

// end ends the process in a way.
func end(way, file string) {
	before := os.Stderr
	release, err := Arm([]string{"/proc/self/exe", "explain", file})
	if err != nil {
		fmt.Println("not armed:", err)
		os.Exit(1)
	}
	fmt.Fprintln(before, "said before")
	fmt.Println(os.Getpid())
	switch way {
	case "bus":
		go func() { mapped()[0]++ }()
	case "caught":
		go func() {
			defer func() {
				fmt.Println("caught:", recover() != nil)
				os.Exit(0)
			}()
			debug.SetPanicOnFault(true)
			sink = mapped()[0]
		}()
	case "panic":
		go panic(errors.New("out of ideas"))
	case "many":
		for range 2000 {
			go func() { select {} }()
		}
		go panic(errors.New("out of ideas"))
	case "nil":
		var p *struct{ b byte }
		go func() { sink = p.b }()
	case "deep":
		debug.SetMaxStack(1 << 20)
		go deep(0)
	case "released":
		release()
		fmt.Fprintln(before, "said afterwards")
		go panic(errors.New("out of ideas"))
	}
	time.Sleep(time.Minute)
}

func deep(n int) int { return deep(n+1) + 1 }

// mapped is a page of a file that has none.
func mapped() []byte {
	f, err := os.CreateTemp("", "mapped")
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_ = os.Remove(f.Name())
	if err := f.Truncate(4096); err != nil {
		panic(err)
	}
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	if err := f.Truncate(0); err != nil {
		panic(err)
	}
	return b
}

// A process that ends by a fault, on whichever goroutine, says what its last program makes of it and nothing else, with
// that one's exit code, as the same process; the whole trace is there.
func TestEnd(t *testing.T) {
	for way, tc := range map[string]struct {
		trace  []string
		code   int
		signal syscall.Signal // sent to it
	}{
		"bus":      {trace: []string{"unexpected fault address", "[signal SIGBUS: bus error", "lastwords.end"}, code: explained},
		"caught":   {},
		"panic":    {trace: []string{"panic: out of ideas", "goroutine "}, code: explained},
		"many":     {trace: []string{"panic: out of ideas", "goroutine 500 "}, code: explained},
		"nil":      {trace: []string{"[signal SIGSEGV: segmentation violation", "nil pointer dereference"}, code: explained},
		"deep":     {trace: []string{"stack overflow", "lastwords.deep"}, code: explained},
		"quit":     {trace: []string{"SIGQUIT: quit", "lastwords.end"}, code: explained, signal: syscall.SIGQUIT},
		"abort":    {trace: []string{"SIGABRT: abort", "lastwords.end"}, code: explained, signal: syscall.SIGABRT},
		"kill":     {code: -1, signal: syscall.SIGKILL},
		"released": {code: 2},
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "trace")
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "LASTWORDS_TEST="+way, "LASTWORDS_FILE="+file)
			var said, complained strings.Builder
			armed := make(chan struct{})
			cmd.Stdout, cmd.Stderr = &signalling{Builder: &said, first: armed}, &complained
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if tc.signal != 0 {
				<-armed
				if err := cmd.Process.Signal(tc.signal); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			want := "said before\n"
			if tc.code == explained {
				want += fmt.Sprintf("process %d ended: <nil>, asked %v\n", cmd.Process.Pid, way == "quit")
			}
			if way == "released" {
				if !strings.HasPrefix(complained.String(), "said before\nsaid afterwards\npanic: out of ideas") {
					t.Errorf("it said %q", complained.String())
				}
			} else if complained.String() != want {
				t.Errorf("it said %q, want %q", complained.String(), want)
			}
			if want := strconv.Itoa(cmd.Process.Pid); !strings.HasPrefix(said.String(), want) || way == "caught" && !strings.Contains(said.String(), "caught: true") {
				t.Errorf("it said %q", said.String())
			}
			trace, err := os.ReadFile(file)
			if len(tc.trace) == 0 {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("a trace: %v", err)
				}
				return
			}
			for _, words := range tc.trace {
				if !strings.Contains(string(trace), words) {
					t.Errorf("no %q in the trace %.2000s", words, trace)
				}
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() > maxTrace {
				t.Errorf("the file of the trace: %v %v", info, err)
			}
		})
	}
}

// signalling closes first at the first write.
type signalling struct {
	*strings.Builder
	first chan struct{}
}

func (s *signalling) Write(b []byte) (int, error) {
	if s.Len() == 0 {
		close(s.first)
	}
	return s.Builder.Write(b)
}

// Who sets the runtime's own switches gets the runtime's own words.
func TestNotHere(t *testing.T) {
	for _, name := range []string{"GOTRACEBACK", "GODEBUG"} {
		t.Setenv(name, "x")
		if _, err := Arm([]string{"/nowhere"}); !errors.Is(err, ErrNotHere) {
			t.Errorf("with %s: %v", name, err)
		}
		t.Setenv(name, "")
	}
}

// The trace takes the place of what is there.
func TestKeep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	for _, there := range []string{"", "panic: a, at length", "pan"} {
		if err := os.WriteFile(file, []byte(there), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Keep(file, "panic: a"); err != nil {
			t.Errorf("over %q: %v", there, err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != "panic: a" {
			t.Errorf("over %q: %q %v", there, got, err)
		}
	}
}
