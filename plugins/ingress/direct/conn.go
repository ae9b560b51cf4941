package direct

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"syscall"
	"time"
)

// silence is the error of a connection on which no byte of an answer came.
type silence struct{ error }

// Unwrap returns why.
func (s silence) Unwrap() error { return s.error }

// conn is a connection to an endpoint. One goroutine uses it at a time, but for close.
type conn struct {
	net.Conn
	of   *Transport
	host string
	in   *bufio.Reader
	out  *bufio.Writer
	left int64 // bytes that may be read
	// closed is set before the connection is closed, by an answer that is not read to its end
	// or by a request that was given up.
	closed atomic.Bool

	idleSince time.Time // in the pool
}

func newConn(t *Transport, host string, raw net.Conn) *conn {
	c := &conn{Conn: raw, of: t, host: host}
	c.in, c.out = bufio.NewReader(c), bufio.NewWriter(raw)
	return c
}

// Read implements io.Reader, for c.in.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the header of the answer exceeds %d bytes", c.of.MaxHeaderBytes)
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	n, err := c.Conn.Read(p)
	c.left -= int64(n)
	return n, err
}

// close ends the connection, and a read or write that is under way.
func (c *conn) close() {
	if !c.closed.Swap(true) {
		c.Conn.Close()
	}
}

// exchange sends a request and returns the answer, whose body owns the connection then. After
// an error the connection is closed.
func (c *conn) exchange(r *http.Request) (*http.Response, error) {
	release := context.AfterFunc(r.Context(), c.close)
	response, err := c.ask(r)
	if err != nil {
		release()
		c.close()
		return nil, err
	}
	b := &body{ReadCloser: response.Body, conn: c, release: release, again: !response.Close && response.StatusCode >= http.StatusOK}
	if r.Method == http.MethodHead || response.ContentLength == 0 {
		b.end(true)
		return response, nil
	}
	if response.ContentLength < 0 || response.ContentLength > int64(c.in.Buffered()) {
		// The body may take as long as it likes.
		if err := c.SetDeadline(time.Time{}); err != nil {
			b.end(false)
			return nil, err
		}
	}
	response.Body = b
	return response, nil
}

func (c *conn) ask(r *http.Request) (*http.Response, error) {
	c.left = c.of.MaxHeaderBytes
	if err := c.SetDeadline(time.Now().Add(c.of.ResponseTimeout)); err != nil {
		return nil, silence{err}
	}
	if err := r.Write(c.out); err != nil {
		return nil, silence{err}
	}
	if err := c.out.Flush(); err != nil {
		return nil, silence{err}
	}
	if _, err := c.in.Peek(1); err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			return nil, err
		}
		return nil, silence{err}
	}
	for {
		response, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		between := response.StatusCode >= http.StatusContinue && response.StatusCode < http.StatusOK
		if !between || response.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return response, nil
		}
		if trace := httptrace.ContextClientTrace(r.Context()); trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(response.StatusCode, textproto.MIMEHeader(response.Header)); err != nil {
				return nil, err
			}
			c.left = c.of.MaxHeaderBytes
		}
	}
}

// body is that of an answer. The connection is free when it was read to its end.
type body struct {
	io.ReadCloser
	conn    *conn
	release func() bool
	again   bool // the connection may serve another request
	over    bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.over {
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end(false)
	return b.ReadCloser.Close()
}

// end gives the connection back, or closes it where its answer was not read in full.
func (b *body) end(whole bool) {
	if b.over {
		return
	}
	b.over = true
	c := b.conn
	// Where the request was given up, the connection is being closed.
	if !b.release() || !whole || !b.again || c.in.Buffered() > 0 || !c.of.pool.put(c) {
		c.close()
	}
}

// fit reports whether a connection that was kept may be used: its server has not ended it, and
// has sent nothing that was not asked for.
func (c *conn) fit() bool {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	// The time limit of the last answer may be over, and would fail the look.
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return false
	}
	quiet := false
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}
