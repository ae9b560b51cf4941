package aggregation

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
)

type at string

func (a at) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(string(a)) }

func remoteService(name string) *apiregistrationv1.APIService {
	version, group, _ := strings.Cut(name, ".")
	port := int32(443)
	o := localService(apiregistrationv1.SchemeGroupVersion, Priority{1, 1})
	o.Name, o.Spec.Group, o.Spec.Version, o.Spec.InsecureSkipTLSVerify = name, group, version, true
	o.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "default", Name: "there", Port: &port}
	helper.SetAPIServiceCondition(o, apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue})
	return o
}

func noCertificate() (cert, key []byte) { return nil, nil }

// as authenticates everybody as ann, as a server would that trusts the front proxy.
func as(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "ann"})
		next.ServeHTTP(w, req.WithContext(request.WithRequestInfo(ctx, &request.RequestInfo{Path: req.URL.Path})))
	})
}

// A Service that leads back to a kernel that takes the proxy's word is found out at the
// second pass, and so is one that leads there by way of another kernel of the cluster.
func TestLoop(t *testing.T) {
	for _, tt := range []struct {
		name    string
		kernels int
		other   string // cluster of the others
		want    int
		passes  int64
	}{
		{"this kernel", 1, "one", http.StatusLoopDetected, 2},
		{"two of a cluster", 2, "one", http.StatusLoopDetected, 2},
		{"a cluster behind another", 2, "two", http.StatusLoopDetected, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var passes atomic.Int64
			handlers := make([]*remoteHandler, tt.kernels)
			servers := make([]*httptest.Server, tt.kernels)
			for i := range handlers {
				cluster := "one"
				if i > 0 {
					cluster = tt.other
				}
				handlers[i] = &remoteHandler{self: pseudonym([]byte(cluster)), stopping: t.Context()}
				servers[i] = httptest.NewTLSServer(as(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					passes.Add(1)
					handlers[i].ServeHTTP(w, req)
				})))
				defer servers[i].Close()
			}
			for i, h := range handlers {
				h.resolver = at(servers[(i+1)%len(servers)].URL)
				h.update(remoteService("v1.loop.example"), "", noCertificate)
			}
			res, err := servers[0].Client().Get(servers[0].URL + "/apis/loop.example/v1/fishes")
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if err != nil {
				t.Fatal(err)
			}
			var status metav1.Status
			if res.StatusCode != tt.want || json.Unmarshal(body, &status) != nil || !strings.Contains(status.Message, "leads back to this cluster's API server") {
				t.Errorf("%s %s", res.Status, body)
			}
			if passes.Load() != tt.passes {
				t.Errorf("%d passes, want %d", passes.Load(), tt.passes)
			}
		})
	}
}

// Who is between two clusters is not taken for one of them.
func TestPassed(t *testing.T) {
	self := pseudonym([]byte("one"))
	for value, want := range map[string]bool{
		"":                                false,
		"1.1 " + self:                     true,
		"2.0 other, 1.1 " + self + " (x)": true,
		"1.1 " + self + "more":            false,
		self:                              false,
		"1.1 " + pseudonym([]byte("two")): false,
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.Header.Set(via, value)
		if got := passed(req, self); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}

// A document that is too large, or ends with a panic, is an error and no more.
func TestBounded(t *testing.T) {
	write := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, n)) }
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		status  int
		size    int
	}{
		"fits":      {write(100), http.StatusOK, 100},
		"too large": {write(101), http.StatusBadGateway, -1},
		"panics":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, http.StatusBadGateway, -1},
		"silent":    {func(http.ResponseWriter, *http.Request) {}, http.StatusOK, 0},
		"refuses":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }, http.StatusNotModified, 0},
	} {
		d := get(tt.handler, httptest.NewRequest(http.MethodGet, "/", nil), 100)
		if d.status != tt.status || tt.size >= 0 && d.body.Len() != tt.size {
			t.Errorf("%s: %d with %d bytes", name, d.status, d.body.Len())
		}
	}
}
