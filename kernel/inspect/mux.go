package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Path is where the API server serves a Mux.
const Path = "/inspect/v1alpha1/"

const (
	// MaxBody bounds the body of a question, in bytes: a snapshot of some
	// thousand nodes and pods.
	MaxBody = 32 << 20
	// maxPath bounds the path of a question, in bytes.
	maxPath = 2048
	// maxQuestions and maxStreams are answered at once.
	maxQuestions = 8
	maxStreams   = 64
	// patience ends a question; a stream has none.
	patience = time.Minute
	// stalled is how long a client may take nothing of a stream.
	stalled = time.Minute
)

// Mux hands questions to who answers them. Safe for concurrent use.
type Mux struct {
	mux       *http.ServeMux
	questions chan struct{}
	streams   chan struct{}
}

var _ http.Handler = (*Mux)(nil)

// New makes a Mux without answers.
func New() *Mux {
	return &Mux{mux: http.NewServeMux(), questions: make(chan struct{}, maxQuestions), streams: make(chan struct{}, maxStreams)}
}

// Get registers who answers a question without a body. The pattern is one of
// net/http below Path, without a method: "plugins/{name}/diff". It panics when
// the pattern is taken, as net/http does.
func (m *Mux) Get(pattern string, answer func(req *http.Request) (any, error)) {
	m.question(http.MethodGet, pattern, func(_ http.ResponseWriter, req *http.Request) (any, error) { return answer(req) })
}

// Post registers who answers a question with a body of JSON, in which only the
// fields of T may stand.
func Post[T any](m *Mux, pattern string, answer func(ctx context.Context, question *T) (any, error)) {
	m.question(http.MethodPost, pattern, func(w http.ResponseWriter, req *http.Request) (any, error) {
		in := json.NewDecoder(http.MaxBytesReader(w, req.Body, MaxBody))
		in.DisallowUnknownFields()
		question := new(T)
		if err := in.Decode(question); err != nil {
			if large := new(http.MaxBytesError); errors.As(err, &large) {
				return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", large.Limit))
			}
			return nil, apierrors.NewBadRequest("the body is not a question: " + err.Error())
		}
		return answer(req.Context(), question)
	})
}

func (m *Mux) question(method, pattern string, answer func(http.ResponseWriter, *http.Request) (any, error)) {
	m.handle(method, pattern, m.questions, func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), patience)
		defer cancel()
		v, err := answer(w, req.WithContext(ctx))
		if err != nil {
			refuse(w, err)
			return
		}
		data, err := json.Marshal(v)
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(data) // who asked is gone
	})
}

// Stream registers who answers a question in as many parts as it takes: serve
// writes to out, which is flushed after each write, until it is done or the
// request's context ends. An error before the first write is the answer.
func (m *Mux) Stream(pattern, contentType string, serve func(req *http.Request, out io.Writer) error) {
	m.handle(http.MethodGet, pattern, m.streams, func(w http.ResponseWriter, req *http.Request) {
		out := &stream{w: w, control: http.NewResponseController(w), kind: contentType}
		if err := serve(req, out); err != nil && !out.begun {
			refuse(w, err)
			return
		}
		out.begin()
	})
}

func (m *Mux) handle(method, pattern string, room chan struct{}, serve http.HandlerFunc) {
	m.mux.HandleFunc(Path+pattern, func(w http.ResponseWriter, req *http.Request) {
		if req.Method != method {
			w.Header().Set("Allow", method)
			refuse(w, generic(http.StatusMethodNotAllowed, req))
			return
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		default:
			refuse(w, apierrors.NewTooManyRequests("Too many requests, please try again later.", 1))
			return
		}
		serve(w, req)
	})
}

// ServeHTTP implements http.Handler. Who may ask is decided before it.
func (m *Mux) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if len(req.URL.Path) > maxPath {
		refuse(w, apierrors.NewBadRequest(fmt.Sprintf("the path is longer than %d bytes", maxPath)))
		return
	}
	if _, pattern := m.mux.Handler(req); pattern == "" {
		refuse(w, generic(http.StatusNotFound, req))
		return
	}
	m.mux.ServeHTTP(w, req)
}

func generic(code int, req *http.Request) error {
	err := apierrors.NewGenericServerResponse(code, strings.ToLower(req.Method), schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = nil
	return err
}

// stream flushes each write, with a deadline a write.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	kind    string
	begun   bool
}

func (s *stream) begin() {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", s.kind)
		s.w.Header().Set("Cache-Control", "no-store")
		s.w.WriteHeader(http.StatusOK)
	}
}

func (s *stream) Write(p []byte) (int, error) {
	s.begin()
	// Not every way in has deadlines and flushes; the others do without.
	_ = s.control.SetWriteDeadline(time.Now().Add(stalled))
	n, err := s.w.Write(p)
	_ = s.control.Flush()
	return n, err
}

// refuse answers with the status of an error.
func refuse(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
		if errors.Is(err, context.DeadlineExceeded) {
			known = apierrors.NewTimeoutError(err.Error(), 0)
		}
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(status.Details.RetryAfterSeconds))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

var _ apierrors.APIStatus = (*apierrors.StatusError)(nil)

// NotFound is the refusal of a question about what is not there.
func NotFound(group, resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: group, Resource: resource}, name)
}

// Unavailable is the refusal of a question that this kernel cannot answer now.
func Unavailable(format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf(format, args...),
	}}
}
