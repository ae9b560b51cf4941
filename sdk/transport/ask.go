//go:build !wasip1

package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// Question is one of the calls that a decision is made of. They may be asked at a
// socket that the process inherits, which takes a third of the time of a call of
// gRPC (sdk/ABI.md, "Processes").
type Question uint32

// The questions; their numbers are part of the contract.
const (
	Apply Question = 1 + iota
	Filter
	Score
	Normalize
	Evaluate
	RunCycle
)

// methods are the questions as methods of gRPC.
var methods = [...]string{
	Apply: contractv1.Scheduling_Apply_FullMethodName, Filter: contractv1.Scheduling_Filter_FullMethodName,
	Score: contractv1.Scheduling_Score_FullMethodName, Normalize: contractv1.Scheduling_Normalize_FullMethodName,
	Evaluate: contractv1.Scheduling_Evaluate_FullMethodName, RunCycle: contractv1.Cycle_Run_FullMethodName,
}

// Method is the full name of the question as a call of gRPC.
func (q Question) Method() string { return methods[q] }

const (
	// QuestionsVersion is the version of frames, as in Description.questions.
	QuestionsVersion = 1
	// QuestionsVariable is the environment variable with the number of the file
	// descriptor at which a process may answer questions.
	QuestionsVariable = "PINTLE_QUESTIONS"
	// maxErrorBytes bounds the words of an answer that is an error.
	maxErrorBytes = 64 << 10
)

// Asker asks questions at a socket whose other end a process inherited: nobody else
// has it. One question is under way at a time.
type Asker struct {
	conn net.Conn

	mu     sync.Mutex
	in     frameReader
	out    []byte
	number uint32
	owed   bool  // the answer to question number was not waited for
	broken error // why it is of no use any more
}

// NewAsker asks at a connection, which it owns.
func NewAsker(conn net.Conn) *Asker { return &Asker{conn: conn, in: frameReader{from: conn}} }

// Close ends it; a question that is under way fails.
func (a *Asker) Close() error { return a.conn.Close() }

// Ask asks and waits for the answer, of at most limit bytes, until timeout is over
// or ctx ends. Errors are those of gRPC. Not to be answered in time breaks it, as do
// frames that nobody asked for; ctx does not: what is owed then is passed over later.
func (a *Asker) Ask(ctx context.Context, q Question, req, resp proto.Message, limit int, timeout time.Duration) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	out, err := proto.MarshalOptions{}.MarshalAppend(beginFrame(a.out), req)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if a.out = out; cap(out) > keptFrame {
		a.out = nil
	}
	if len(out) > MaxMessageBytes {
		return status.Errorf(codes.ResourceExhausted, "question of %d bytes, at most %d", len(out), MaxMessageBytes)
	}
	if err := a.conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return a.failed(err)
	}
	if ctx.Done() != nil {
		over := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			defer close(over)
			_ = a.conn.SetReadDeadline(time.Unix(1, 0)) // fails with the connection only
		})
		defer func() {
			if !stop() {
				<-over // it would end the next question
			}
		}()
	}
	if a.owed {
		if _, err := a.answer(MaxMessageBytes); err != nil {
			return a.interrupted(ctx, err)
		}
		a.owed = false
	}
	a.number++
	endFrame(out, a.number, uint32(q))
	if _, err := a.conn.Write(out); err != nil {
		return a.failed(err)
	}
	a.owed = true
	answer, err := a.answer(limit)
	if err != nil {
		return a.interrupted(ctx, err)
	}
	a.owed = false
	if code := codes.Code(answer.what); code != codes.OK {
		if code > codes.Unauthenticated {
			return a.failed(fmt.Errorf("code %d", answer.what))
		}
		words := answer.body[:min(len(answer.body), maxErrorBytes)]
		return status.Error(code, strings.ToValidUTF8(string(words), "\uFFFD"))
	}
	if err := proto.Unmarshal(answer.body, resp); err != nil {
		return status.Errorf(codes.Internal, "answer to %s: %v", q.Method(), err)
	}
	return nil
}

// answer reads the answer to question number.
func (a *Asker) answer(limit int) (frame, error) {
	f, err := a.in.next(limit)
	if err == nil && f.number != a.number {
		err = fmt.Errorf("answer %d to question %d", f.number, a.number)
	}
	return f, err
}

// interrupted tells a caller who gave up from a process that failed.
func (a *Asker) interrupted(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return a.failed(err)
}

// failed gives the connection up: what it carries next cannot be told.
func (a *Asker) failed(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		a.broken = status.Error(codes.DeadlineExceeded, "no answer in time")
	case errors.Is(err, errTooLarge):
		a.broken = status.Error(codes.ResourceExhausted, err.Error())
	default:
		a.broken = status.Errorf(codes.Unavailable, "its socket for questions: %v", err)
	}
	_ = a.conn.Close()
	return a.broken
}
