package aggregation

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A server that hangs while it is asked for its documents keeps nobody waiting: neither
// who asks for the documents of all, nor what tells of other servers.
func TestHangingDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := must(newOpenAPI(withoutKinds()))
		defer o.queue.ShutDown()
		server := func(name string) *apiregistrationv1.APIService { return remoteService(name) }
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		if err := o.take(server("v1.hangs.example"), hangs); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := o.download(t.Context(), "v1.hangs.example"); err == nil {
				t.Error("a document that did not come was taken")
			}
		}()
		synctest.Wait()
		if err := o.take(server("v1.other.example"), http.NotFoundHandler()); err != nil {
			t.Fatal(err)
		}
		if err := o.take(server("v1.hangs.example"), hangs); err != nil {
			t.Fatal(err)
		}
		if d := get(o.versioned("v1.hangs.example").mux, must(http.NewRequest(http.MethodGet, "/openapi/v3", nil)), maxDocument); d.status != http.StatusOK {
			t.Errorf("the list of documents: %d", d.status)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("others waited for %s", waited)
		}
		<-done
		if waited := time.Since(began); waited != 2*documentsFor {
			t.Errorf("it was waited for %s, want %s", waited, 2*documentsFor)
		}
	})
}

// A server that hangs does not hold up the stop: the download under way ends, and those
// that wait for their turn do not begin.
func TestStopDuringDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := must(newOpenAPI(withoutKinds()))
		var asked atomic.Int32
		hangs := http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/openapi/v2" { // the first of both
				asked.Add(1)
			}
			<-req.Context().Done()
		})
		for i := range downloads + 1 {
			if err := o.take(remoteService(fmt.Sprintf("v1.hangs%d.example", i)), hangs); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.run(ctx)
		}()
		time.Sleep(openAPISoon)
		synctest.Wait()
		if n := asked.Load(); n != downloads {
			t.Errorf("%d servers are asked at a time, want %d", n, downloads)
		}
		began := time.Now()
		cancel()
		<-done
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the stop waited for %s", waited)
		}
		if n := asked.Load(); n != downloads {
			t.Errorf("%d more servers were asked after the stop", n-downloads)
		}
	})
}

// withoutKinds has what newOpenAPI needs for a kernel that serves nothing of its own.
func withoutKinds() *Aggregator {
	return &Aggregator{cfg: Config{OpenAPI: func() *common.Config {
		return &common.Config{
			Info:           &spec.Info{InfoProps: spec.InfoProps{Title: "test", Version: "v1"}},
			GetDefinitions: func(common.ReferenceCallback) map[string]common.OpenAPIDefinition { return nil },
		}
	}}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) //nolint:forbidigo // of a test
	}
	return v
}

// A server is asked directly for the document that it lists, and only then.
func TestListedDocument(t *testing.T) {
	d := newDocuments("a.example", "v1")
	for _, tt := range []struct {
		name, root string
		status     int
		listed     bool
	}{
		{"none yet", "", http.StatusServiceUnavailable, false},
		{"its own", `{"paths":{"apis/a.example/v1":{"serverRelativeURL":"/openapi/v3/apis/a.example/v1"}}}`, http.StatusOK, true},
		{"away for a while", "", http.StatusServiceUnavailable, true},
		{"another's", `{"paths":{"apis/b.example/v1":{}}}`, http.StatusOK, false},
		{"no list", "<html>", http.StatusOK, false},
		{"without OpenAPI v3", "", http.StatusNotFound, false},
	} {
		d.from(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(tt.status)
			if req.URL.Path == "/openapi/v3" {
				_, _ = w.Write([]byte(tt.root))
			}
		}))
		d.fetch(t.Context())
		if got := d.direct() != nil; got != tt.listed {
			t.Errorf("%s: listed %t", tt.name, got)
		}
		answer := get(d, must(http.NewRequest(http.MethodGet, "/openapi/v3", nil)), maxDocument)
		if answer.status != tt.status || answer.body.String() != tt.root {
			t.Errorf("%s: it is given as %d %q", tt.name, answer.status, answer.body.String())
		}
		d.forget()
		if answer := get(d, must(http.NewRequest(http.MethodGet, "/openapi/v3", nil)), maxDocument); answer.status != http.StatusServiceUnavailable {
			t.Errorf("%s: after it is merged: %d", tt.name, answer.status)
		}
	}
}
