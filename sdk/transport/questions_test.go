package transport

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// sockets are two ends of a connection, as a kernel and a process have them.
func sockets(t testing.TB) (ours net.Conn, theirs *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	end := os.NewFile(uintptr(fds[0]), "ours")
	defer end.Close()
	theirs = os.NewFile(uintptr(fds[1]), "theirs")
	if ours, err = net.FileConn(end); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// scheduling answers as the test says.
type scheduling struct {
	contractv1.UnimplementedSchedulingServer
	filter func(*contractv1.FilterRequest) (*contractv1.FilterResponse, error)
}

func (s *scheduling) Filter(_ context.Context, req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
	return s.filter(req)
}

// answering is the process's side of it.
func answering(filter func(*contractv1.FilterRequest) (*contractv1.FilterResponse, error)) *answerer {
	a := &answerer{ServiceRegistrar: grpc.NewServer()}
	contractv1.RegisterSchedulingServer(a, &scheduling{filter: filter})
	return a
}

// served runs an answerer until the test ends and returns who asks it.
func served(t *testing.T, a *answerer) *Asker {
	t.Helper()
	ours, theirs := sockets(t)
	done := make(chan error, 1)
	go func() { done <- a.serve(theirs) }()
	asker := NewAsker(ours)
	t.Cleanup(func() {
		asker.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return asker
}

// Questions are answered as gRPC answers them, errors included, and what is not
// there is not implemented.
func TestQuestionsAreAnswered(t *testing.T) {
	asker := served(t, answering(func(req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
		if req.GetClass() == 0 {
			return nil, status.Error(codes.NotFound, "no class 0\xff")
		}
		return &contractv1.FilterResponse{Verdicts: req.GetNodes()}, nil
	}))
	long := make([]uint32, 3<<20)
	for k := range long {
		long[k] = uint32(k)
	}
	for _, tc := range []struct {
		name     string
		question Question
		class    uint32
		nodes    []uint32
		limit    int
		code     codes.Code
		words    string
	}{
		{"short", Filter, 1, []uint32{3, 1}, 100, codes.OK, ""},
		{"an error", Filter, 0, nil, 100, codes.NotFound, "no class 0\uFFFD"},
		{"larger than any buffer", Filter, 1, long, 32 << 20, codes.OK, ""},
		{"short again", Filter, 1, []uint32{7}, 100, codes.OK, ""},
		{"not implemented", Evaluate, 1, nil, 100, codes.Unimplemented, "method Evaluate not implemented"},
		{"of a service that is not there", RunCycle, 1, nil, 100, codes.Unimplemented, "no question 6"},
	} {
		resp := &contractv1.FilterResponse{}
		err := asker.Ask(t.Context(), tc.question, &contractv1.FilterRequest{Class: tc.class, Nodes: tc.nodes}, resp, tc.limit, patience)
		if s := status.Convert(err); s.Code() != tc.code || s.Message() != tc.words {
			t.Errorf("%s: %v, want %s %q", tc.name, err, tc.code, tc.words)
		}
		if !slices.Equal(resp.GetVerdicts(), tc.nodes) {
			t.Errorf("%s: %d verdicts, want %d", tc.name, len(resp.GetVerdicts()), len(tc.nodes))
		}
	}
}

// Who gives up gets its answer at once, and the next question its own.
func TestQuestionIsGivenUp(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	asker := served(t, answering(func(req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
		if req.GetClass() == 1 {
			close(asked)
			<-answer
		}
		return &contractv1.FilterResponse{Verdicts: []uint32{req.GetClass()}}, nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	resp := &contractv1.FilterResponse{}
	if err := asker.Ask(ctx, Filter, &contractv1.FilterRequest{Class: 1}, resp, 100, patience); status.Code(err) != codes.Canceled {
		t.Fatalf("given up: %v", err)
	}
	if err := asker.Ask(ctx, Filter, &contractv1.FilterRequest{Class: 2}, resp, 100, patience); status.Code(err) != codes.Canceled {
		t.Fatalf("given up before: %v", err)
	}
	close(answer)
	if err := asker.Ask(t.Context(), Filter, &contractv1.FilterRequest{Class: 3}, resp, 100, patience); err != nil || !slices.Equal(resp.GetVerdicts(), []uint32{3}) {
		t.Fatalf("the next question: %v, %v", resp.GetVerdicts(), err)
	}
}

func header(size, number, what uint32) []byte {
	var out []byte
	for _, word := range []uint32{size, number, what} {
		out = binary.LittleEndian.AppendUint32(out, word)
	}
	return out
}

// What a process does at its socket that it should not is an error that says so,
// within the time of a call, and it is not asked there again.
func TestHostileAnswers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer []byte
		closes bool
		code   codes.Code
		words  string
	}{
		{"silence", nil, false, codes.DeadlineExceeded, "no answer in time"},
		{"silence within a header", header(0, 1, 0)[:5], false, codes.DeadlineExceeded, "no answer in time"},
		{"silence within a frame", header(100, 1, 0), false, codes.DeadlineExceeded, "no answer in time"},
		{"a giant frame", header(1<<32-1, 1, 0), false, codes.ResourceExhausted, "4294967295 bytes, at most 1024"},
		{"a large frame", append(header(1025, 1, 0), make([]byte, 1025)...), false, codes.ResourceExhausted, "1025 bytes, at most 1024"},
		{"a giant error", append(header(1025, 1, 5), make([]byte, 1025)...), false, codes.ResourceExhausted, "1025 bytes, at most 1024"},
		{"the answer to another question", header(0, 2, 0), false, codes.Unavailable, "answer 2 to question 1"},
		{"a code that is none", header(0, 1, 17), false, codes.Unavailable, "code 17"},
		{"no message", append(header(3, 1, 0), 0xff, 0xff, 0xff), false, codes.Internal, "answer to /pintle.contract.v1.Scheduling/Filter"},
		{"two answers", append(header(0, 1, 0), header(0, 1, 0)...), false, codes.OK, ""},
		{"it closes", nil, true, codes.Unavailable, "EOF"},
		{"it closes within a frame", header(100, 1, 0), true, codes.Unavailable, "unexpected EOF"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ours, theirs := sockets(t)
			asker := NewAsker(ours)
			done := make(chan struct{})
			go func() {
				defer close(done)
				in := frameReader{from: theirs}
				if _, err := in.next(1 << 20); err != nil {
					t.Errorf("the question: %v", err)
				}
				if _, err := theirs.Write(tc.answer); err != nil {
					t.Errorf("the answer: %v", err)
				}
				if tc.closes {
					theirs.Close()
				}
			}()
			timeout := patience
			if tc.code == codes.DeadlineExceeded {
				timeout = 50 * time.Millisecond
			}
			ask := func() error {
				return asker.Ask(t.Context(), Filter, &contractv1.FilterRequest{Class: 1}, &contractv1.FilterResponse{}, 1024, timeout)
			}
			err := ask()
			<-done
			if s := status.Convert(err); s.Code() != tc.code || !strings.Contains(s.Message(), tc.words) {
				t.Fatalf("%v, want %s %q", err, tc.code, tc.words)
			}
			switch tc.code {
			case codes.Internal: // the frames are in order
			case codes.OK: // and the second is none that was asked for
				if err := ask(); !strings.Contains(err.Error(), "answer 1 to question 2") {
					t.Errorf("the next question: %v", err)
				}
			default:
				if again := ask(); status.Code(again) != tc.code {
					t.Errorf("the next question: %v", again)
				}
			}
		})
	}
}

// A process that does not read holds up nobody for longer than a call.
func TestAnswererThatDoesNotRead(t *testing.T) {
	ours, _ := sockets(t)
	asker := NewAsker(ours)
	req := &contractv1.FilterRequest{Plugin: strings.Repeat("x", 8<<20)}
	if err := asker.Ask(t.Context(), Filter, req, &contractv1.FilterResponse{}, 1024, 50*time.Millisecond); status.Code(err) != codes.DeadlineExceeded {
		t.Fatal(err)
	}
}

// What arrives is what memory is spent on, not what a header promises.
func TestFrameGrowsWithWhatArrives(t *testing.T) {
	r := frameReader{from: strings.NewReader(string(header(200<<20, 1, 0)))}
	if _, err := r.next(MaxMessageBytes); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if cap(r.buffer) > 64<<10 {
		t.Errorf("%d bytes for a header", cap(r.buffer))
	}
}

// FuzzAnswers: whatever a process writes, the kernel's side ends with an answer or
// an error, and with no more memory than the bound of a call.
func FuzzAnswers(f *testing.F) {
	answer, err := proto.Marshal(&contractv1.FilterResponse{Verdicts: []uint32{1, 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(header(uint32(len(answer)), 1, 0), answer...))
	f.Add(append(header(2, 1, 5), "no"...))
	f.Add(append(header(0, 1, 0), header(0, 2, 0)...))
	f.Add(header(1<<32-1, 1, 0))
	f.Fuzz(func(t *testing.T, written []byte) {
		ours, theirs := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer theirs.Close()
			if _, err := theirs.Write(written); err == nil {
				_, _ = io.Copy(io.Discard, theirs)
			}
		}()
		asker := NewAsker(&readFirst{Conn: ours})
		for range 3 {
			_ = asker.Ask(t.Context(), Filter, &contractv1.FilterRequest{Class: 1}, &contractv1.FilterResponse{}, 4096, patience)
		}
		if cap(asker.in.buffer) > 16<<10 {
			t.Errorf("%d bytes are kept of answers of at most 4096", cap(asker.in.buffer))
		}
		asker.Close()
		<-done
	})
}

// readFirst swallows what is written: the other end writes before it reads. What was
// written to it ends with EOF.
type readFirst struct{ net.Conn }

func (c *readFirst) Write(b []byte) (int, error) { return len(b), nil }

func (c *readFirst) Read(b []byte) (int, error) {
	_ = c.Conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	n, err := c.Conn.Read(b)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// FuzzQuestions: whatever is written to a process, it answers each whole frame with
// one of the same number, and ends.
func FuzzQuestions(f *testing.F) {
	question, err := proto.Marshal(&contractv1.FilterRequest{Class: 1, Nodes: []uint32{1, 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(header(uint32(len(question)), 1, uint32(Filter)), question...))
	f.Add(append(header(0, 1, 99), header(0, 2, 0)...))
	f.Add(header(1<<32-1, 1, 2))
	f.Fuzz(func(t *testing.T, written []byte) {
		a := answering(func(req *contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
			return &contractv1.FilterResponse{Verdicts: req.GetNodes()}, nil
		})
		var answers strings.Builder
		err := a.serve(&stream{Reader: strings.NewReader(string(written)), Writer: &answers})
		questions, got := frameReader{from: strings.NewReader(string(written))}, frameReader{from: strings.NewReader(answers.String())}
		for {
			q, ended := questions.next(MaxMessageBytes)
			if ended != nil {
				if (err == nil) != (ended == io.EOF) {
					t.Fatalf("served until %v, the questions end with %v", err, ended)
				}
				break
			}
			if f, err := got.next(MaxMessageBytes); err != nil || f.number != q.number || f.what > uint32(codes.Unauthenticated) {
				t.Fatalf("answer %d, code %d, %v to question %d", f.number, f.what, err, q.number)
			}
		}
		if f, err := got.next(MaxMessageBytes); err != io.EOF {
			t.Fatalf("answer %d to nothing, %v", f.number, err)
		}
	})
}

type stream struct {
	io.Reader
	io.Writer
}

func (*stream) Close() error { return nil }

// BenchmarkAsk is a question and its answer within one process.
func BenchmarkAsk(b *testing.B) {
	ours, theirs := sockets(b)
	done := make(chan error, 1)
	go func() {
		done <- answering(func(*contractv1.FilterRequest) (*contractv1.FilterResponse, error) {
			return &contractv1.FilterResponse{Verdicts: []uint32{0}}, nil
		}).serve(theirs)
	}()
	asker := NewAsker(ours)
	req, resp := &contractv1.FilterRequest{Plugin: "Room", Class: 1, Nodes: []uint32{1}}, &contractv1.FilterResponse{}
	b.ReportAllocs()
	for b.Loop() {
		if err := asker.Ask(b.Context(), Filter, req, resp, 1024, patience); err != nil {
			b.Fatal(err)
		}
	}
	asker.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
