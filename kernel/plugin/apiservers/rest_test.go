package apiservers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
)

// build is a bundle whose processes answer with their number.
type build struct{ name string }

type started struct {
	of     *build
	number int
}

func (b *build) own(process any) bool { p, ok := process.(started); return ok && p.of == b }

// resting is a registry whose server notes runs, was checked and may rest.
type resting struct {
	*Registry
	t       *testing.T
	clock   *testingclock.FakeClock
	changed chan struct{}
	build   *build
	asked   atomic.Int32 // requests that a process served
	dials   atomic.Int32
	hold    atomic.Pointer[chan struct{}] // what /hold waits for
	woken   atomic.Int32
	unwell  atomic.Bool // it fails its checks
}

func newResting(t *testing.T) *resting {
	t.Helper()
	r := &resting{t: t, clock: testingclock.NewFakeClock(time.Now()), changed: make(chan struct{}, 16), build: &build{"notes"}}
	r.Registry = New(func() { r.changed <- struct{}{} }, r.clock)
	t.Cleanup(r.Close)
	r.up(r.build, 1)
	<-r.changed
	return r
}

// up starts a process of a build.
func (r *resting) up(of *build, number int) {
	r.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/apis/notes.example.com/v1":
			if r.unwell.Load() {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Etag", `"one"`)
			fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":%q,"resources":[]}`, notes)
		case "/openapi/v2":
			http.NotFound(w, req)
		case "/openapi/v3":
			fmt.Fprintf(w, "of process %d", number)
		case "/openapi/v3/apis/long":
			_, _ = w.Write(bytes.Repeat([]byte{'x'}, longestDocument+10))
		case "/hold":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-*r.hold.Load()
		default:
			r.asked.Add(1)
			fmt.Fprintf(w, "process %d", number)
		}
	}))
	r.t.Cleanup(server.Close)
	r.Up("notes", started{of, number}, []schema.GroupVersion{notes}, func(ctx context.Context) (net.Conn, error) {
		r.dials.Add(1)
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
}

func (r *resting) rest() bool {
	return r.Rest([]string{"notes", "of-another-name"}, time.Minute, r.build.own, func() { r.woken.Add(1) })
}

func (r *resting) get(ctx context.Context, user, path string, header ...string) (*http.Response, error) {
	by, err := r.Transport("notes", notes)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Remote-User", user)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	return by.RoundTrip(req)
}

// reads asks and compares what is answered.
func (r *resting) reads(user, path, want string, header ...string) {
	r.t.Helper()
	res, err := r.get(r.t.Context(), user, path, header...)
	if err != nil {
		r.t.Error(err)
		return
	}
	text, err := io.ReadAll(res.Body)
	if got := fmt.Sprintf("%d %s", res.StatusCode, text); err != nil || got != want {
		r.t.Errorf("%s of %s: %q, %v, want %q", path, user, got, err, want)
	}
	if err := res.Body.Close(); err != nil {
		r.t.Error(err)
	}
}

const aggregator = "system:aggregator"

// A server that nothing uses rests, is there all the same, and a storm of requests starts
// one process, which answers all of them.
func TestRest(t *testing.T) {
	r := newResting(t)
	r.reads("ann", "/apis/notes.example.com/v1/notes", "200 process 1")
	r.reads(aggregator, "/openapi/v3", "200 of process 1", "Accept", "application/json")
	r.reads(aggregator, "/openapi/v2", "404 404 page not found\n", "Accept", "application/json")
	if r.clock.Step(59 * time.Second); r.rest() {
		t.Fatal("it rests a moment after it was used")
	}
	if r.clock.Step(2 * time.Second); !r.rest() || !r.Resting("notes") {
		t.Fatal("it does not rest although nothing uses it")
	}
	if r.rest() {
		t.Error("it rests twice")
	}
	// Said once more of the process that has ended.
	r.up(r.build, 1)
	if err := r.Fault("notes", notes); err != nil || !r.Resting("notes") {
		t.Errorf("it counts as not available: %v", err)
	}
	dials := r.dials.Load()
	for range 3 {
		r.reads(aggregator, "/openapi/v3", "200 of process 1", "Accept", "application/json")
		r.reads(aggregator, "/openapi/v2", "404 404 page not found\n", "Accept", "application/json")
		r.reads(checkerName, "/apis/notes.example.com/v1", `200 {"kind":"APIResourceList","groupVersion":"notes.example.com/v1","resources":[]}`, "Accept", "application/json")
		r.reads(checkerName, "/apis/notes.example.com/v1", "304 ", "Accept", "application/json", "If-None-Match", `"one"`)
	}
	if r.woken.Load() > 0 || r.dials.Load() > dials {
		t.Errorf("the kernel's questions start it: woken %d times, %d connections", r.woken.Load(), r.dials.Load()-dials)
	}
	var storm sync.WaitGroup
	for range 100 {
		storm.Go(func() { r.reads("ann", "/apis/notes.example.com/v1/notes", "200 process 2") })
	}
	eventually(t, func() bool { return r.woken.Load() == 100 })
	r.up(r.build, 2)
	storm.Wait()
	if n := r.asked.Load(); n != 101 {
		t.Errorf("%d requests were served, want 101", n)
	}
	// It is not asked for its documents before it may rest again.
	if r.clock.Step(2 * time.Minute); !r.rest() {
		t.Fatal("it does not rest again")
	}
	r.reads(aggregator, "/openapi/v2", "404 404 page not found\n", "Accept", "application/json")
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for range 12000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not come about")
}

// A request under way, such as a watch, and an open stream are uses.
func TestWhatIsUnderWay(t *testing.T) {
	r := newResting(t)
	end := make(chan struct{})
	r.hold.Store(&end)
	watch, err := r.get(t.Context(), "ann", "/hold")
	if err != nil {
		t.Fatal(err)
	}
	if r.clock.Step(time.Hour); r.rest() {
		t.Error("it rests under a watch")
	}
	close(end)
	watch.Body.Close()
	watch.Body.Close()
	if r.rest() {
		t.Error("it rests right after the watch")
	}
	by, err := r.Transport("notes", notes)
	if err != nil {
		t.Fatal(err)
	}
	wrapped, ok := by.(interface{ WrappedRoundTripper() http.RoundTripper }).WrappedRoundTripper().(*http.Transport)
	if !ok {
		t.Fatal("streams cannot be dialed")
	}
	stream, err := wrapped.DialContext(t.Context(), "tcp", "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if r.clock.Step(time.Hour); r.rest() {
		t.Error("it rests under a stream")
	}
	stream.Close()
	stream.Close()
	if r.clock.Step(time.Hour); !r.rest() {
		t.Error("it does not rest after the stream")
	}
	// A stream starts it, as any request does.
	var waits sync.WaitGroup
	waits.Go(func() {
		stream, err := wrapped.DialContext(t.Context(), "tcp", "localhost")
		if err != nil {
			t.Error(err)
			return
		}
		stream.Close()
	})
	eventually(t, func() bool { return r.woken.Load() == 1 })
	r.up(r.build, 2)
	waits.Wait()
}

// What does not answer, is of another build, or shares its process with one that is used
// does not rest.
func TestWhatDoesNotRest(t *testing.T) {
	r := newResting(t)
	r.clock.Step(time.Hour)
	if r.Rest([]string{"notes"}, time.Minute, (&build{"other"}).own, func() {}) {
		t.Error("a build had another one's server rest")
	}
	if r.Rest([]string{"none"}, time.Minute, r.build.own, func() {}) {
		t.Error("nothing rests")
	}
	r.mu.Lock()
	r.replace("more", &server{name: "more", process: started{r.build, 1}, versions: nil, record: &record{}, used: r.clock.Now()})
	r.mu.Unlock()
	if r.Rest([]string{"notes", "more"}, time.Minute, r.build.own, func() {}) {
		t.Error("it rests although its process is used")
	}
	r.reads("ann", "/apis/notes.example.com/v1/notes", "200 process 1") // it was not shut
	r.unwell.Store(true)
	eventually(t, func() bool {
		r.clock.Step(checkEvery)
		return r.Fault("notes", notes) != nil
	})
	if r.clock.Step(time.Hour); r.rest() {
		t.Error("it rests although it does not answer")
	}
}

// Another build that takes the place of one that rests answers for itself.
func TestUpgradeOfOneThatRests(t *testing.T) {
	r := newResting(t)
	r.reads(aggregator, "/openapi/v3", "200 of process 1")
	if r.clock.Step(time.Hour); !r.rest() {
		t.Fatal("it does not rest")
	}
	r.up(&build{"next"}, 7)
	<-r.changed // of its first check
	r.reads(aggregator, "/openapi/v3", "200 of process 7")
	if r.Resting("notes") {
		t.Error("it rests although it was started")
	}
}

// Who waits for a process that does not come is told why, and does not wait for ever.
func TestWaiting(t *testing.T) {
	for name, tt := range map[string]struct {
		act   func(r *Registry, cancel context.CancelFunc)
		want  string
		after time.Duration
	}{
		"it cannot be started":   {func(r *Registry, _ context.CancelFunc) { r.Down("notes", errors.New("bundle notes: no such file")) }, "plugin notes: bundle notes: no such file", 0},
		"it hangs":               {func(*Registry, context.CancelFunc) {}, "plugin notes: it was started for this request, and did not answer within 30s", wakeFor},
		"the client goes away":   {func(_ *Registry, cancel context.CancelFunc) { cancel() }, "context canceled", 0},
		"the plugin is disabled": {func(r *Registry, _ context.CancelFunc) { r.Keep(nil) }, "plugin notes is not in use at this API server", 0},
		"the kernel ends":        {func(r *Registry, _ context.CancelFunc) { r.Close() }, "plugin notes", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, woken := atRest()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				var err error
				var waits sync.WaitGroup
				waits.Go(func() {
					var res *http.Response
					if res, err = ask(ctx, r); err == nil {
						res.Body.Close()
					}
				})
				synctest.Wait()
				if woken.Load() != 1 {
					t.Errorf("woken %d times", woken.Load())
				}
				tt.act(r, cancel)
				waits.Wait()
				if err == nil || !strings.Contains(err.Error(), tt.want) || time.Since(began) != tt.after {
					t.Errorf("%v after %s, want %q after %s", err, time.Since(began), tt.want, tt.after)
				}
			})
		})
	}
}

// atRest is a registry with one server, which rests, and how often it was woken.
func atRest() (*Registry, *atomic.Int32) {
	woken := &atomic.Int32{}
	r := New(func() {}, testingclock.NewFakeClock(time.Now()))
	r.replace("notes", &server{name: "notes", versions: []schema.GroupVersion{notes}, record: &record{},
		rest: &rest{own: func(any) bool { return true }, wake: func() { woken.Add(1) }}})
	return r, woken
}

func ask(ctx context.Context, r *Registry) (*http.Response, error) {
	by, err := r.Transport("notes", notes)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/apis/notes.example.com/v1/notes", nil)
	if err != nil {
		return nil, err
	}
	return by.RoundTrip(req)
}

// A flood of requests for a process that does not come is refused beyond a bound.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := atRest()
		var refused atomic.Int32
		var waits sync.WaitGroup
		for range mostWaiting + 100 {
			waits.Go(func() {
				res, err := ask(t.Context(), r)
				if err == nil {
					res.Body.Close()
				} else if strings.Contains(err.Error(), "more than 500 requests wait until it is started") {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if n := refused.Load(); n != 100 {
			t.Errorf("%d requests are refused, want 100", n)
		}
		r.Down("notes", errors.New("no"))
		waits.Wait()
	})
}

// A document that is too long is handed on whole, and asked for again; what users ask for
// is not kept, and cannot push out what is.
func TestRecordIsBounded(t *testing.T) {
	r := newResting(t)
	long := "200 " + strings.Repeat("x", longestDocument+10)
	r.reads(aggregator, "/openapi/v3/apis/long", long)
	for i := range 2 * mostDocuments {
		r.reads("ann", fmt.Sprintf("/openapi/v3?n=%d", i), "200 of process 1")
		r.reads(aggregator, "/openapi/v3", "200 of process 1", "Accept", fmt.Sprintf("application/json;n=%d", i))
	}
	r.mu.Lock()
	record := r.servers["notes"].record
	r.mu.Unlock()
	total := 0
	for key, k := range record.kept {
		if total += len(k.body); strings.Contains(key, "long") || strings.Contains(key, "ann") {
			t.Errorf("kept: %s", key)
		}
	}
	if len(record.kept) > mostDocuments || total != record.bytes {
		t.Errorf("%d documents are kept, %d bytes, of which it says %d", len(record.kept), total, record.bytes)
	}
	// What was not kept, the process is started for.
	if r.clock.Step(time.Hour); !r.rest() {
		t.Fatal("it does not rest")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waits sync.WaitGroup
	waits.Go(func() {
		if res, err := r.get(ctx, aggregator, "/openapi/v3/apis/long"); err == nil {
			res.Body.Close()
			t.Error("a document that was not kept is answered")
		}
	})
	eventually(t, func() bool { return r.woken.Load() == 1 })
	cancel()
	waits.Wait()
}

func TestAbout(t *testing.T) {
	for path, want := range map[string]bool{
		"/apis": true, "/apis/": true, "/apis/a": true, "/apis/a/v1": true, "/apis/a/v1/notes": false, "/apisx": false, "/api": false,
		"/openapi/v2": true, "/openapi/v3": true, "/openapi/v3/apis/a/v1": true, "/openapi": false, "/": false, "/healthz": false,
	} {
		if about(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
