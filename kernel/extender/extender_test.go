package extender

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func nodes(names ...string) []*v1.Node {
	var list []*v1.Node
	for _, name := range names {
		list = append(list, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"n": name}}})
	}
	return list
}

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "u"}}

// answering is a server that answers each verb with a value, and keeps what it was asked.
func answering(t *testing.T, answers map[string]any) (*httptest.Server, map[string]json.RawMessage) {
	t.Helper()
	asked := map[string]json.RawMessage{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		verb := strings.TrimPrefix(r.URL.Path, "/scheduler/")
		answer, known := answers[verb]
		if !known || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			http.NotFound(w, r)
			return
		}
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked[verb] = body
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	return s, asked
}

func made(t *testing.T, cfg Config) *Extender {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// The protocol on the wire: whole nodes or names, as the server says.
func TestProtocol(t *testing.T) {
	names := []string{"n2"}
	server, asked := answering(t, map[string]any{
		"filter":     extenderv1.ExtenderFilterResult{NodeNames: &names, FailedNodes: map[string]string{"n1": "no"}, FailedAndUnresolvableNodes: map[string]string{"n3": "never"}},
		"whole":      extenderv1.ExtenderFilterResult{Nodes: &v1.NodeList{Items: []v1.Node{*nodes("n1")[0]}}},
		"prioritize": extenderv1.HostPriorityList{{Host: "n1", Score: 7}, {Host: "n2", Score: 70}, {Host: "elsewhere", Score: 1}},
		"bind":       extenderv1.ExtenderBindingResult{},
		"refuse":     extenderv1.ExtenderBindingResult{Error: "not on my watch"},
		"preempt":    extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{"n1": {Pods: []*extenderv1.MetaPod{{UID: "v"}}}}},
	})
	cfg := Config{URLPrefix: server.URL + "/scheduler/", FilterVerb: "filter", PrioritizeVerb: "prioritize", BindVerb: "bind", PreemptVerb: "preempt", Weight: 3, NodeCacheCapable: true}
	e := made(t, cfg)
	left, failed, hopeless, err := e.Filter(t.Context(), pod, nodes("n1", "n2", "n3"))
	if err != nil || !slices.Equal(left, names) || failed["n1"] != "no" || hopeless["n3"] != "never" {
		t.Errorf("%v %v %v %v", left, failed, hopeless, err)
	}
	if want := `"Nodes":null,"NodeNames":["n1","n2","n3"]`; !strings.Contains(string(asked["filter"]), want) || !strings.Contains(string(asked["filter"]), `"name":"p"`) {
		t.Errorf("asked %s", asked["filter"])
	}
	scores, err := e.Prioritize(t.Context(), pod, nodes("n1", "n2"))
	if err != nil || !reflect.DeepEqual(scores, map[string]int64{"n1": 21, "n2": 30}) {
		t.Errorf("%v %v", scores, err)
	}
	binding := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "u"}, Target: v1.ObjectReference{Name: "n1"}}
	if err := e.Bind(t.Context(), binding); err != nil {
		t.Error(err)
	}
	if want := `{"PodName":"p","PodNamespace":"a","PodUID":"u","Node":"n1"}`; string(asked["bind"]) != want {
		t.Errorf("asked %s", asked["bind"])
	}
	victim := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "victim", UID: "v"}}
	victims, err := e.Preempt(t.Context(), pod, map[string]*extenderv1.Victims{"n1": {Pods: []*v1.Pod{victim}, NumPDBViolations: 1}, "n2": {Pods: []*v1.Pod{victim}}})
	if err != nil || len(victims) != 1 || len(victims["n1"].Pods) != 1 || victims["n1"].Pods[0].UID != "v" {
		t.Errorf("%v %v", victims, err)
	}
	if want := `"NodeNameToMetaVictims":{"n1":{"Pods":[{"UID":"v"}],"NumPDBViolations":1},"n2":{"Pods":[{"UID":"v"}],"NumPDBViolations":0}}`; !strings.Contains(string(asked["preempt"]), want) {
		t.Errorf("asked %s", asked["preempt"])
	}
	cfg.FilterVerb, cfg.BindVerb, cfg.NodeCacheCapable = "whole", "refuse", false
	e = made(t, cfg)
	if left, _, _, err := e.Filter(t.Context(), pod, nodes("n1", "n2")); err != nil || !slices.Equal(left, []string{"n1"}) {
		t.Errorf("%v %v", left, err)
	}
	if !strings.Contains(string(asked["whole"]), `"labels":{"n":"n2"}`) || !strings.Contains(string(asked["whole"]), `"NodeNames":null`) {
		t.Errorf("asked %s", asked["whole"])
	}
	if err := e.Bind(t.Context(), binding); err == nil || err.Error() != "not on my watch" {
		t.Error(err)
	}
}

// Servers that fail, hang, or answer what they were not asked are errors.
func TestBadServers(t *testing.T) {
	others := []string{"other"}
	twice := []string{"n1", "n1"}
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"fails":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "code 500"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/else", http.StatusFound) }, "code 302"},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "invalid character"},
		"empty":     {func(http.ResponseWriter, *http.Request) {}, "EOF"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{Error: "broken"})
		}, "broken"},
		"an error in colours": {func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{Error: "bro\x1b[31mken\x00"})
		}, "bro\ufffd[31mken\ufffd"},
		"other node": {func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &others})
		}, `claims a filtered node "other"`},
		"node twice": {func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &twice})
		}, `claims a filtered node "n1"`},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, "Client.Timeout exceeded"},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "answered more than"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(c.handler)
			t.Cleanup(s.Close)
			patience := time.Minute
			if name == "hangs" {
				patience = 20 * time.Millisecond
			}
			e := made(t, Config{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true, Timeout: patience})
			if _, _, _, err := e.Filter(t.Context(), pod, nodes("n1", "n2")); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	e := made(t, Config{URLPrefix: "http://127.0.0.1:1", FilterVerb: "filter"})
	if _, _, _, err := e.Filter(t.Context(), pod, nodes("n1")); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Bind(gone, &v1.Binding{}); err == nil {
		t.Error("no error of a context that has ended")
	}
}

// A server may leave victims out, and neither add some nor leave a node empty.
// What a server says of nodes is shown to users by explain and in events.
func TestWordsAreClean(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{
			NodeNames: &[]string{}, FailedNodes: map[string]string{"n1": "a\x1b[2Jb\nc", "n2": "plain"}, FailedAndUnresolvableNodes: map[string]string{"n3": " \x0b "},
		})
	}))
	t.Cleanup(s.Close)
	e := made(t, Config{URLPrefix: s.URL, FilterVerb: "filter", NodeCacheCapable: true})
	_, failed, hopeless, err := e.Filter(t.Context(), pod, nodes("n1", "n2", "n3"))
	if err != nil || failed["n1"] != "a\ufffd[2Jb c" || failed["n2"] != "plain" || hopeless["n3"] != "refused by extender "+s.URL {
		t.Errorf("%q, %q, %v", failed, hopeless, err)
	}
}

func TestBadVictims(t *testing.T) {
	victim := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "v"}}
	for name, c := range map[string]struct {
		answer    map[string]*extenderv1.MetaVictims
		ignorable bool
		want      string
	}{
		"nobody":            {answer: map[string]*extenderv1.MetaVictims{"n1": {}}, want: "expected at least one victim pod"},
		"nobody, ignorable": {answer: map[string]*extenderv1.MetaVictims{"n1": nil}, ignorable: true},
	} {
		t.Run(name, func(t *testing.T) {
			server, _ := answering(t, map[string]any{"preempt": extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: c.answer}})
			e := made(t, Config{URLPrefix: server.URL + "/scheduler", PreemptVerb: "preempt", NodeCacheCapable: true, Ignorable: c.ignorable})
			got, err := e.Preempt(t.Context(), pod, map[string]*extenderv1.Victims{"n1": {Pods: []*v1.Pod{victim}}})
			if c.want == "" && (err != nil || len(got) > 0) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v %v, want %q", got, err, c.want)
			}
		})
	}
}

// 002: a pod is sent to an extender only if it asks for a resource that it manages.
func TestInterested(t *testing.T) {
	asking := func(name string, init, limit bool) *v1.Pod {
		list := v1.ResourceList{v1.ResourceName(name): resource.MustParse("1")}
		c := v1.Container{Resources: v1.ResourceRequirements{Requests: list}}
		if limit {
			c = v1.Container{Resources: v1.ResourceRequirements{Limits: list}}
		}
		if init {
			return &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{c}}}
		}
		return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	}
	e := made(t, Config{URLPrefix: "http://a", ManagedResources: []string{"example.com/gpu"}})
	for _, c := range []struct {
		pod  *v1.Pod
		want bool
	}{
		{asking("example.com/gpu", false, false), true}, {asking("example.com/gpu", true, false), true}, {asking("example.com/gpu", false, true), true},
		{asking("cpu", false, false), false}, {&v1.Pod{}, false},
	} {
		if got := e.Interested(c.pod); got != c.want {
			t.Errorf("%v: %v", c.pod.Spec, got)
		}
	}
	if !made(t, Config{URLPrefix: "http://a"}).Interested(&v1.Pod{}) {
		t.Error("one that manages nothing is interested in every pod")
	}
}

// TLS: an authority is checked against, none is not, and files that are not there
// are told.
func TestTLS(t *testing.T) {
	names := []string{"n1"}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &names})
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		https bool
		tls   rest.TLSClientConfig
		ok    bool
	}{
		"authority":               {true, rest.TLSClientConfig{CAFile: ca}, true},
		"no authority":            {true, rest.TLSClientConfig{}, true},
		"the system's":            {false, rest.TLSClientConfig{}, false},
		"another name":            {true, rest.TLSClientConfig{CAFile: ca, ServerName: "elsewhere"}, false},
		"insecure is not HTTPS's": {false, rest.TLSClientConfig{Insecure: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := made(t, Config{URLPrefix: s.URL, FilterVerb: "f", NodeCacheCapable: true, EnableHTTPS: c.https, TLS: c.tls})
			if _, _, _, err := e.Filter(t.Context(), pod, nodes("n1")); (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := New(Config{URLPrefix: "https://a", TLS: rest.TLSClientConfig{CAFile: ca + "x"}}); err == nil {
		t.Error("an authority that is not there is taken")
	}
}
