package maintenance

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// Path is where the API server serves the handler.
const Path = "/kernel/store/"

// Content types of what is not JSON.
const (
	backupType = "application/vnd.pintle.backup"
	linesType  = "application/x-ndjson"
)

// Config is what a handler needs.
type Config struct {
	Store *store.Store
	Bus   *bus.Bus
	// Dir is where the store is, for display.
	Dir string
	// Decoder checks objects when the store is verified.
	Decoder *Decoder
}

// handler serves a running kernel's store.
type handler struct{ Config }

// NewHandler serves the operations below Path. Who may call them is decided before it.
func NewHandler(cfg Config) (http.Handler, error) {
	if cfg.Store == nil || cfg.Bus == nil || cfg.Decoder == nil {
		return nil, errors.New("maintenance: a handler needs a store, its bus and a decoder")
	}
	h := &handler{cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+Path+"stats", h.stats)
	mux.HandleFunc("GET "+Path+"value", h.value)
	mux.HandleFunc("GET "+Path+"history", h.history)
	mux.HandleFunc("GET "+Path+"backup", h.backup)
	mux.HandleFunc("GET "+Path+"verify", h.verify)
	mux.HandleFunc("POST "+Path+"compact", h.compact)
	return mux, nil
}

// Elsewhere answers for a kernel whose objects are in etcd.
func Elsewhere(servers string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: fmt.Sprintf("this kernel keeps its objects in etcd at %s: use etcdctl and etcdutl (endpoint status, compaction, snapshot save), "+
				"or pintle store migrate to bring them into an embedded store", servers),
		}})
	})
}

func (h *handler) stats(w http.ResponseWriter, _ *http.Request) {
	st, err := statsOf(h.Store, h.Dir)
	if err != nil {
		refuse(w, err)
		return
	}
	b := h.Bus.Stats()
	st.Bus = &b
	answer(w, st)
}

func (h *handler) value(w http.ResponseWriter, req *http.Request) {
	revision, err := number(req, "revision")
	if err != nil {
		refuse(w, err)
		return
	}
	v, err := getOf(h.Store, req.FormValue("key"), revision)
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, v)
}

func (h *handler) history(w http.ResponseWriter, req *http.Request) {
	limit, err := number(req, "limit")
	if err != nil {
		refuse(w, err)
		return
	}
	versions, err := historyOf(h.Store, req.FormValue("key"), int(min(limit, maxVersions)))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, versions)
}

func (h *handler) compact(w http.ResponseWriter, req *http.Request) {
	var r CompactRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<10)).Decode(&r); err != nil {
		refuse(w, apierrors.NewBadRequest("the body is not a request to compact: "+err.Error()))
		return
	}
	if r.Revision != 0 && r.Keep != 0 || r.Revision == 0 && r.Keep <= 0 {
		refuse(w, apierrors.NewBadRequest("name a revision or an age to keep, one of them"))
		return
	}
	requested := r.Revision
	if r.Keep > 0 {
		if requested = h.Store.RevisionAt(time.Now().Add(-r.Keep)); requested == 0 {
			refuse(w, apierrors.NewBadRequest(fmt.Sprintf("this kernel has not run for %s yet and does not know which revisions are older; name a revision", r.Keep)))
			return
		}
	}
	if err := h.Store.Compact(req.Context(), requested); err != nil {
		refuse(w, err)
		return
	}
	out, err := compactedOf(req.Context(), h.Store, requested)
	if err != nil {
		refuse(w, err)
		return
	}
	if out.CompactedRevision < requested {
		out.HeldRevision = h.Store.Held()
	}
	answer(w, out)
}

// stalled is how long a client may take nothing of a stream.
const stalled = time.Minute

// stream writes with a deadline a write.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newStream(w http.ResponseWriter, kind string) *stream {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	return &stream{w: w, control: http.NewResponseController(w)}
}

func (s *stream) Write(p []byte) (int, error) {
	s.begun = true
	// Not every way in has deadlines; what the store holds for a stalled reader ends by itself.
	_ = s.control.SetWriteDeadline(time.Now().Add(stalled))
	return s.w.Write(p)
}

func (h *handler) backup(w http.ResponseWriter, req *http.Request) {
	since, err := number(req, "since")
	if err != nil {
		refuse(w, err)
		return
	}
	r := BackupRequest{
		Incremental: req.FormValue("since") != "", Since: since,
		Store: req.FormValue("store"), History: req.FormValue("history") == "true",
	}
	out := newStream(w, backupType)
	if _, _, err := backupOf(req.Context(), h.Store, r, out, nil); err != nil && !out.begun {
		refuse(w, err)
	}
}

// line is one of the lines that a verification answers with.
type line struct {
	Step   string              `json:"step,omitempty"`
	Done   int64               `json:"done,omitempty"`
	Total  int64               `json:"total,omitempty"`
	Report *store.VerifyReport `json:"report,omitempty"`
	Error  string              `json:"error,omitempty"`
}

func (h *handler) verify(w http.ResponseWriter, req *http.Request) {
	out := newStream(w, linesType)
	lines := json.NewEncoder(out)
	var told time.Time
	report, err := h.Store.Verify(req.Context(), store.VerifyOptions{
		Check: h.Decoder.Check,
		Progress: func(step string, done, total int64) {
			if time.Since(told) > 100*time.Millisecond || done == total {
				told = time.Now()
				_ = lines.Encode(line{Step: step, Done: done, Total: total})
				_ = out.control.Flush()
			}
		},
	})
	last := line{Report: &report}
	if err != nil {
		last = line{Error: err.Error()}
	}
	_ = lines.Encode(last)
}

func number(req *http.Request, name string) (uint64, error) {
	text := req.FormValue(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is not a number", name, text))
	}
	return n, nil
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with the status of an error.
func refuse(w http.ResponseWriter, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	var known apierrors.APIStatus
	var disk *store.DiskError
	set := func(code int32, reason metav1.StatusReason) { status.Code, status.Reason = code, reason }
	switch {
	case errors.As(err, &known):
		status = known.Status()
	case errors.Is(err, store.ErrKeyNotFound):
		set(http.StatusNotFound, metav1.StatusReasonNotFound)
	case errors.As(err, new(*store.CompactedError)):
		set(http.StatusGone, metav1.StatusReasonExpired)
	case errors.As(err, new(*store.FutureRevisionError)), errors.As(err, new(*store.OtherStoreError)):
		set(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	case errors.As(err, &disk), errors.Is(err, store.ErrClosed):
		set(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	}
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

var _ io.Writer = (*stream)(nil)
