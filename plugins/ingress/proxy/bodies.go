package proxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// lingers is how long the rest of a body is waited for that nobody reads any more.
const lingers = 5 * time.Second

// body bounds each read of a request's body. A deadline holds during a read alone:
// between reads the connection is the server's.
type body struct {
	io.ReadCloser
	of       *http.ResponseController
	patience time.Duration // 0: without an end
	http1    bool

	mu     sync.Mutex // held while a read is under way
	closed bool
	ended  bool // all of it was read
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended:
		return 0, io.EOF
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	}
	if b.patience > 0 {
		_ = b.of.SetReadDeadline(time.Now().Add(b.patience))
	}
	n, err := b.ReadCloser.Read(p)
	_ = b.of.SetReadDeadline(time.Time{})
	b.ended = errors.Is(err, io.EOF)
	return n, err
}

// Close ends a read that is under way: there is an answer, so nobody wants the rest.
func (b *body) Close() error {
	for !b.mu.TryLock() {
		_ = b.of.SetReadDeadline(time.Now().Add(-time.Second))
		time.Sleep(time.Millisecond)
	}
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if !b.http1 {
		return b.ReadCloser.Close()
	}
	// The server reads on for a while, to use the connection again.
	_ = b.of.SetReadDeadline(time.Now().Add(lingers))
	err := b.ReadCloser.Close()
	_ = b.of.SetReadDeadline(time.Time{})
	return err
}

// unread closes a body that was not read to its end.
func (b *body) unread() {
	if b.mu.TryLock() {
		ended := b.ended
		b.mu.Unlock()
		if ended {
			return
		}
	}
	_ = b.Close()
}

// answer bounds each write of an answer, and remembers its status.
type answer struct {
	http.ResponseWriter
	of       *http.ResponseController
	patience time.Duration
	status   int
	// begins is called before an answer is written. By HTTP/1.1 the server would read
	// what is left of the body then, without a bound of time.
	begins func()
}

// Unwrap is what http.ResponseController goes by.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.status = status
		if _, there := a.Header()["Content-Type"]; !there {
			a.Header()["Content-Type"] = nil // the server would guess one
		}
		if a.begins != nil {
			a.begins()
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	_ = a.of.SetWriteDeadline(time.Now().Add(a.patience))
	n, err := a.ResponseWriter.Write(p)
	_ = a.of.SetWriteDeadline(time.Time{})
	return n, err
}

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	_ = a.of.SetWriteDeadline(time.Now().Add(a.patience))
	err := a.of.Flush()
	_ = a.of.SetWriteDeadline(time.Time{})
	return err
}

// end bounds what the server still writes when the handler has returned. The server
// takes the deadline away before the next request.
func (a *answer) end() {
	if a.status != http.StatusSwitchingProtocols {
		_ = a.of.SetWriteDeadline(time.Now().Add(a.patience))
	}
}
