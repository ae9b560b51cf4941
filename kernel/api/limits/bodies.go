package limits

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// bodyGrace is what a body may take to come, and a second more for each
	// bytesPerSecond of it that have come.
	bodyGrace      = 10 * time.Second
	bytesPerSecond = 64 << 10
	// firstRead is what is held for a body before any of it has come.
	firstRead = 4 << 10
)

// Bodies bounds the bodies of requests that are being served: the time that each
// takes to come, and their size together.
type Bodies struct {
	largest int64
	grace   time.Duration
	held    quota
	refuse  Refuse
}

// NewBodies bounds the bytes of all bodies; one user may have a quarter of that, and
// one body in any case. What is longer than largest is left to who reads it.
func NewBodies(all, largest int64, refuse Refuse) *Bodies {
	perUser := all / 4
	if all > 0 {
		perUser = max(perUser, 2*largest)
	}
	return &Bodies{largest: largest, grace: bodyGrace, held: quota{total: all, perUser: perUser}, refuse: refuse}
}

// Body is a body that has come.
type Body struct {
	bytes.Reader
	all  []byte
	rest io.ReadCloser
}

// Bytes are the whole body, if nothing follows: of one that is not too long.
func (b *Body) Bytes() ([]byte, bool) { return b.all, b.rest == nil }

func (b *Body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.rest != nil {
		return b.rest.Read(p)
	}
	return n, err
}

// WriteTo is not bytes.Reader's, which does not know the rest.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	n, err := b.Reader.WriteTo(w)
	if err != nil || b.rest == nil {
		return n, err
	}
	more, err := io.Copy(w, b.rest)
	return n + more, err
}

// Close implements io.Closer.
func (b *Body) Close() error {
	if b.rest != nil {
		return b.rest.Close()
	}
	return nil
}

// Before reads the bodies of requests for resources that are served at once. What
// stays open (longRunning) reads its own.
func (l *Bodies) Before(next http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || req.ContentLength == 0 || req.Body == nil || req.Body == http.NoBody || req.Method == http.MethodGet || req.Method == http.MethodHead ||
			!info.IsResourceRequest || longRunning(req, info) {
			next.ServeHTTP(w, req)
			return
		}
		r := reading{limits: l, client: clientOf(req), body: req.Body}
		defer r.release()
		body, err := r.read(w, req)
		if err != nil {
			w.Header().Set("Connection", "close")
			l.refuse(w, req, err)
			return
		}
		req.Body = body
		next.ServeHTTP(w, req)
	})
}

// reading is the reading of one body.
type reading struct {
	limits *Bodies
	client client
	body   io.ReadCloser
	held   int64
	late   atomic.Bool
}

func (r *reading) release() {
	if r.held > 0 {
		r.limits.held.give(r.client.name, r.held)
	}
}

// hold counts n more bytes. Memory is taken as the body comes: a client that
// declares much and sends little holds little.
func (r *reading) hold(n int64) error {
	if r.client.privileged {
		return nil
	}
	ok, all := r.limits.held.take(r.client.name, n)
	if ok {
		r.held += n
		return nil
	}
	if all {
		return tooMany("the bodies of the requests that are being served hold %d bytes, which is the server's limit", r.limits.held.total)
	}
	return tooMany("the bodies of the requests of user %q that are being served hold %d bytes, which is the limit of a user", r.client.name, r.limits.held.perUser)
}

func (r *reading) read(w http.ResponseWriter, req *http.Request) (*Body, error) {
	l := r.limits
	// One more than allowed shows that it is too long.
	most := l.largest + 1
	if n := req.ContentLength; n > 0 {
		most = min(most, n)
	}
	size := min(most, firstRead)
	if err := r.hold(size); err != nil {
		return nil, err
	}
	extend, stop := r.deadline(w, req)
	defer stop()
	buf := make([]byte, 0, size)
	for int64(len(buf)) < most {
		if len(buf) == cap(buf) {
			more := min(most, 2*int64(cap(buf)))
			if err := r.hold(more - int64(cap(buf))); err != nil {
				return nil, err
			}
			grown := make([]byte, len(buf), more)
			copy(grown, buf)
			buf = grown
			extend(l.grace + time.Duration(len(buf))*time.Second/bytesPerSecond)
		}
		n, err := r.body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return newBody(buf, nil), nil
		}
		if err != nil {
			if r.late.Load() || isTimeout(err) {
				r.late.Store(true)
				return nil, late(l.grace)
			}
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the body of the request cannot be read: %v", err))
		}
	}
	if int64(len(buf)) <= l.largest {
		return newBody(buf, nil), nil // the declared length has come
	}
	return newBody(buf, r.body), nil
}

func newBody(all []byte, rest io.ReadCloser) *Body {
	b := &Body{all: all, rest: rest}
	b.Reset(all)
	return b
}

// deadline gives the body up when it does not come. HTTP/2 has the body to close,
// which costs less than a deadline of its stream; HTTP/1 the connection's deadline.
func (r *reading) deadline(w http.ResponseWriter, req *http.Request) (extend func(time.Duration), stop func()) {
	begin := time.Now()
	if req.ProtoMajor >= 2 {
		timer := time.AfterFunc(r.limits.grace, func() {
			r.late.Store(true)
			_ = r.body.Close()
		})
		return func(all time.Duration) { timer.Reset(all - time.Since(begin)) }, func() { timer.Stop() }
	}
	control := http.NewResponseController(w)
	set := func(all time.Duration) { _ = control.SetReadDeadline(begin.Add(all)) } // without: the request's own time ends it
	set(r.limits.grace)
	return set, func() {
		if !r.late.Load() {
			_ = control.SetReadDeadline(time.Time{})
		}
	}
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

func late(grace time.Duration) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestTimeout, Reason: metav1.StatusReasonTimeout,
		Message: fmt.Sprintf("the body of the request did not come within %s, and a second more for each %d KiB that came", grace, bytesPerSecond>>10),
	}}
}
