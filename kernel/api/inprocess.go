package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// inprocess is a RoundTripper that calls a handler directly. A response is
// handed over when the handler flushes, returns, or has written more than
// handOver bytes; after that the body streams, with at most maxPending bytes
// not yet read.
type inprocess struct {
	handler  func() http.Handler
	identity func(context.Context) context.Context
}

const (
	handOver   = 64 << 10
	maxPending = 1 << 20
	// inprocessAddr is where these requests come from, which no connection has.
	inprocessAddr = "127.0.0.1:0"
)

var errBodyClosed = errors.New("in-process response: body closed by its reader")

func (t *inprocess) RoundTrip(req *http.Request) (*http.Response, error) {
	h := t.handler()
	if h == nil {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &net.OpError{Op: "dial", Net: "inprocess", Err: errors.New("api server is not running")}
	}
	ctx, cancel := t.within(req.Context())
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	in.RemoteAddr = inprocessAddr
	in.Host = req.URL.Host
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &response{header: http.Header{}, ready: make(chan struct{}), gone: make(chan bool, 1), cancel: cancel}
	w.cond.L = &w.mu
	stop := context.AfterFunc(ctx, func() { w.fail(context.Cause(ctx)) })
	go func() {
		defer stop()
		defer in.Body.Close()
		defer func() {
			// The handler chain recovers panics; what passes it is
			// http.ErrAbortHandler, which ends the response.
			if p := recover(); p != nil {
				w.fail(io.ErrUnexpectedEOF)
				return
			}
			w.finish()
		}()
		h.ServeHTTP(w, in)
	}()
	select {
	case <-w.ready:
	case <-req.Context().Done():
		cancel()
		return nil, req.Context().Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == 0 {
		cancel()
		return nil, w.err
	}
	res := &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: w.sent, Body: w, ContentLength: -1, Request: req,
	}
	if w.done {
		res.ContentLength = int64(len(w.buf))
	}
	return res, nil
}

// within is the context of a request that is made in this process: it ends with
// the caller's and has its span, but nothing else of it. Where the caller serves a
// request itself, that one's audit event, user and attributes are not this one's.
func (t *inprocess) within(caller context.Context) (context.Context, context.CancelFunc) {
	base := context.Background()
	if span := trace.SpanFromContext(caller); span.SpanContext().IsValid() {
		base = trace.ContextWithSpan(base, span)
	}
	ctx, cancel := context.WithCancelCause(t.identity(base))
	stop := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// response is both the handler's ResponseWriter and the client's body.
type response struct {
	header, sent http.Header
	ready        chan struct{}
	gone         chan bool
	cancel       context.CancelFunc

	mu     sync.Mutex
	cond   sync.Cond
	status int
	isOut  bool // ready is closed
	buf    []byte
	off    int
	done   bool  // the handler has returned
	closed bool  // the reader has closed the body
	err    error // what ended the response early
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *response) writeHeader(status int) {
	if w.status != 0 || (status >= 100 && status < 200) {
		return
	}
	w.status = status
	w.sent = w.header.Clone()
}

func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	for len(w.buf)-w.off > maxPending && !w.closed && w.err == nil {
		w.out()
		w.cond.Wait()
	}
	if w.closed {
		return 0, errBodyClosed
	}
	if w.err != nil {
		return 0, w.err
	}
	w.buf = append(w.buf, p...)
	if w.isOut {
		w.cond.Broadcast()
	} else if len(w.buf) > handOver {
		w.out()
	}
	return len(p), nil
}

func (w *response) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	w.out()
}

// CloseNotify is asked for by the API machinery's response wrappers.
func (w *response) CloseNotify() <-chan bool { return w.gone }

// out lets the reader at what is there.
func (w *response) out() {
	if !w.isOut {
		w.isOut = true
		close(w.ready)
	}
	w.cond.Broadcast()
}

func (w *response) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	w.done = true
	w.out()
}

func (w *response) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || w.err != nil {
		return
	}
	w.err = err
	select {
	case w.gone <- true:
	default:
	}
	w.out()
}

func (w *response) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.off == len(w.buf) && !w.done && !w.closed && w.err == nil {
		w.cond.Wait()
	}
	switch {
	case w.closed:
		return 0, errBodyClosed
	case w.off < len(w.buf):
		n := copy(p, w.buf[w.off:])
		w.off += n
		if w.off == len(w.buf) {
			w.buf, w.off = w.buf[:0], 0
			if cap(w.buf) > handOver {
				w.buf = nil
			}
			w.cond.Broadcast()
		}
		return n, nil
	case w.err != nil:
		return 0, w.err
	default:
		return 0, io.EOF
	}
}

func (w *response) Close() error {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
	w.cancel()
	return nil
}
