package horizontalpodautoscaler

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// server answers requests by their path.
type server struct {
	mu    sync.Mutex
	asked map[string]int
	// answer gives the status and the body of a path; a negative status: no answer.
	answer func(path string) (int, string)
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[req.URL.Path]++
	s.mu.Unlock()
	code, body := s.answer(req.URL.Path)
	if code < 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
}

const (
	podKinds = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["get"]}]}`
	appKinds = `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","namespaced":true,"kind":"Deployment","verbs":["get"]},{"name":"deployments/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","update"]}]}`
)

// discovered answers discovery, and leaves all else to the given function.
func discovered(else_ func(path string) (int, string)) func(path string) (int, string) {
	return func(path string) (int, string) {
		switch path {
		case "/api":
			return 200, `{"kind":"APIVersions","versions":["v1"]}`
		case "/apis":
			return 200, `{"kind":"APIGroupList","apiVersion":"v1","groups":[
				{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}},
				{"name":"custom.metrics.k8s.io","versions":[{"groupVersion":"custom.metrics.k8s.io/v1beta2","version":"v1beta2"}],"preferredVersion":{"groupVersion":"custom.metrics.k8s.io/v1beta2","version":"v1beta2"}}]}`
		case "/api/v1":
			return 200, podKinds
		case "/apis/apps/v1":
			return 200, appKinds
		case "/apis/custom.metrics.k8s.io/v1beta2":
			return 200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"custom.metrics.k8s.io/v1beta2","resources":[]}`
		}
		return else_(path)
	}
}

// asking is the controller's own way to metrics and targets, over a server.
func asking(t *testing.T, s *server) (*targets, *sources) {
	t.Helper()
	config := &rest.Config{Host: "http://api", Transport: s, QPS: -1}
	to, err := newTargets(config)
	if err != nil {
		t.Fatal(err)
	}
	from, err := newSources(config, to.mapper, 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return to, from
}

const (
	resourcePath = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"
	customPath   = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/*/rate"
	externalPath = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/queue"
)

// An adapter that answers what it likes: an error comes of it, or a number that is kept
// within those that there are.
func TestRubbish(t *testing.T) {
	long := `{"items":[` + strings.Repeat(`{"metricName":"x","value":"1"},`, 1000)
	any := []string{"", "", ""}
	all := func(words string) []string { return []string{words, words, words} }
	for name, tt := range map[string]struct {
		code  int
		body  func(path string) string
		want  int64    // of each API, where none fails
		fails []string // what the error of the external, the custom and the resource API says
	}{
		"no JSON":             {200, same("<html>"), 0, []string{"invalid character", "json parse error", "invalid character"}},
		"cut off":             {200, same(long), 0, all("unexpected end")},
		"empty":               {200, same("{}"), 0, []string{"no metrics returned", "'Kind' is missing", "no metrics returned"}},
		"a list of nothing":   {200, same(`{"items":[]}`), 0, []string{"no metrics returned", "'Kind' is missing", "no metrics returned"}},
		"NaN":                 {200, items("NaN"), 0, all("quantities must match")},
		"infinite":            {200, items("Inf"), 0, all("quantities must match")},
		"a long number":       {200, items(strings.Repeat("9", 400)), 1<<63 - 1, nil},
		"negative":            {200, items("-5"), -5000, nil},
		"an error with words": {500, same(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"moon","reason":"InternalError","code":500}`), 0, all("moon")},
		"an error without":    {418, same("teapot"), 0, all("status code 418")},
		"a redirect":          {302, same(""), 0, any},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{answer: discovered(func(path string) (int, string) { return tt.code, tt.body(path) })}
			_, from := asking(t, s)
			check := func(which int, value int64, err error) {
				t.Helper()
				switch {
				case tt.fails == nil && (err != nil || value != tt.want):
					t.Errorf("API %d: %d, %v; want %d", which, value, err, tt.want)
				case tt.fails != nil && (err == nil || !strings.Contains(err.Error(), tt.fails[which])):
					t.Errorf("API %d: error %v, want %q", which, err, tt.fails[which])
				}
			}
			values, err := from.external("queue", "ns", labels.Everything())
			value := int64(0)
			if len(values) > 0 {
				value = values[0]
			}
			check(0, value, err)
			samples, err := from.ofPods("rate", "ns", labels.Everything(), labels.Everything())
			check(1, samples["web-0"].value, err)
			samples, err = from.resources(t.Context(), corev1.ResourceCPU, "ns", labels.Everything(), "")
			check(2, samples["web-0"].value, err)
		})
	}
}

func same(body string) func(string) string { return func(string) string { return body } }

// items is a list of one value, as the API of the path has it.
func items(quantity string) func(path string) string {
	return func(path string) string {
		switch path {
		case resourcePath:
			return fmt.Sprintf(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[{"metadata":{"name":"web-0"},"containers":[{"name":"c","usage":{"cpu":%q}}]}]}`, quantity)
		case customPath:
			return fmt.Sprintf(`{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/v1beta2","items":[{"describedObject":{"kind":"Pod","name":"web-0"},"metric":{"name":"rate"},"value":%q}]}`, quantity)
		}
		return fmt.Sprintf(`{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","items":[{"metricName":"queue","value":%q}]}`, quantity)
	}
}

// An endless answer is read up to a bound.
func TestEndlessAnswer(t *testing.T) {
	body := &boundedBody{ReadCloser: io.NopCloser(endless{}), left: longestAnswer}
	n, err := io.Copy(io.Discard, body)
	if err == nil || !strings.Contains(err.Error(), "longer than") || n != longestAnswer {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

// An adapter that never answers holds a worker once; others fail at once, and those that
// need it not are not held up. When it answers again, all go on.
func TestHangingAdapter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := true
		s := &server{answer: discovered(func(path string) (int, string) {
			if hangs && path == externalPath {
				return -1, ""
			}
			return 200, items("5")(path)
		})}
		_, from := asking(t, s)
		began := time.Now()
		if _, err := from.external("queue", "ns", labels.Everything()); err == nil || time.Since(began) != patience {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		for range 1000 {
			if _, err := from.external("queue", "ns", labels.Everything()); err == nil || !strings.Contains(err.Error(), "it did not answer a moment ago") {
				t.Fatal(err)
			}
		}
		if _, err := from.resources(t.Context(), corev1.ResourceCPU, "ns", labels.Everything(), ""); err != nil {
			t.Error(err)
		}
		if time.Since(began) != 0 || s.asked[externalPath] != 1 {
			t.Errorf("%s and %d requests", time.Since(began), s.asked[externalPath])
		}
		// One tries after the pause, alone.
		time.Sleep(16 * time.Second)
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := from.external("queue", "ns", labels.Everything()); err == nil {
					t.Error("an answer of nobody")
				}
			})
		}
		wg.Wait()
		if s.asked[externalPath] != 2 {
			t.Errorf("%d requests", s.asked[externalPath])
		}
		hangs = false
		time.Sleep(16 * time.Second)
		for range 3 {
			if _, err := from.external("queue", "ns", labels.Everything()); err != nil {
				t.Error(err)
			}
		}
	})
}

// One metric that is slow does not shut the API for the others.
func TestSlowMetric(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answer: discovered(func(path string) (int, string) {
			if strings.HasSuffix(path, "/slow") {
				return -1, ""
			}
			return 200, items("5")(path)
		})}
		_, from := asking(t, s)
		fast := func() {
			t.Helper()
			if _, err := from.external("queue", "ns", labels.Everything()); err != nil {
				t.Error(err)
			}
		}
		for range 3 {
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := from.external("slow", "tenant", labels.Everything()); err == nil || strings.Contains(err.Error(), "a moment ago") {
					t.Errorf("the slow metric: %v", err)
				}
			})
			time.Sleep(time.Second)
			fast()
			wg.Wait()
			fast()
		}
		// Alone it shuts the API, as one that hangs, until the API answers again.
		time.Sleep(time.Second)
		if _, err := from.external("slow", "tenant", labels.Everything()); err == nil {
			t.Error("the slow metric answered")
		}
		if _, err := from.external("queue", "ns", labels.Everything()); err == nil || !strings.Contains(err.Error(), "a moment ago") {
			t.Error(err)
		}
		time.Sleep(16 * time.Second)
		fast()
	})
}

// Targets of other kinds, of none, and scales that name another object.
func TestTargets(t *testing.T) {
	scale := func(namespace, name string) string {
		return fmt.Sprintf(`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"namespace":%q,"name":%q},"spec":{"replicas":2},"status":{"replicas":2,"selector":"a=b"}}`, namespace, name)
	}
	s := &server{answer: discovered(func(path string) (int, string) {
		switch path {
		case "/apis/apps/v1/namespaces/ns/deployments/web/scale":
			return 200, scale("ns", "web")
		case "/apis/apps/v1/namespaces/ns/deployments/liar/scale":
			return 200, scale("kube-system", "web")
		case "/apis/apps/v1/namespaces/ns/deployments/twin/scale":
			return 200, scale("ns", "web")
		}
		return 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the server could not find the requested resource","reason":"NotFound","code":404}`
	})}
	to, _ := asking(t, s)
	for _, tt := range []struct{ version, kind, name, fails string }{
		{"apps/v1", "Deployment", "web", ""},
		{"apps/v9", "Deployment", "web", ""}, // the version that is served
		{"apps/v1", "Deployment", "none", "could not find"},
		{"apps/v1", "Deployment", "liar", `is said to be that of "web" in "kube-system"`},
		{"apps/v1", "Deployment", "twin", `is said to be that of "web" in "ns"`},
		{"apps/v1", "Moon", "web", `no matches for kind "Moon" in group "apps"`},
		{"moon.example.com/v1", "Deployment", "web", `no matches for kind "Deployment" in group "moon.example.com"`},
		{"v1", "Pod", "web", "could not find"},
		{"a/b/c", "Deployment", "web", "unexpected GroupVersion string: a/b/c"},
	} {
		got, _, err := to.find(t.Context(), "ns", &autoscalingv2.CrossVersionObjectReference{APIVersion: tt.version, Kind: tt.kind, Name: tt.name})
		if tt.fails == "" && (err != nil || got.Spec.Replicas != 2) || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("%s %s %s: %v, want %q", tt.version, tt.kind, tt.name, err, tt.fails)
		}
	}
	// A kind that there is not is looked for once, not once an autoscaler.
	before := s.asked["/apis"]
	for range 1000 {
		if _, _, err := to.find(t.Context(), "ns", &autoscalingv2.CrossVersionObjectReference{APIVersion: "moon.example.com/v1", Kind: "Moon", Name: "x"}); err == nil {
			t.Fatal("found")
		}
	}
	if n := s.asked["/apis"] - before; n > 1 {
		t.Errorf("discovery was asked %d times", n)
	}
}

// 10,000 autoscalers: a look at each costs one read of its target and one of its
// metrics, and one write of its status at first. Finding whose pods they are takes few
// comparisons.
func TestManyAutoscalers(t *testing.T) {
	const spaces, each = 100, 100
	w := newWorld(t, "")
	writes := 0
	w.client.PrependReactor("update", "horizontalpodautoscalers", func(a clienttesting.Action) (bool, runtime.Object, error) {
		writes++
		return true, a.(clienttesting.UpdateAction).GetObject(), nil //nolint:forcetypeassert // it is one
	})
	name := func(i int) string { return fmt.Sprintf("d%d", i) }
	for space := range spaces {
		w.namespace = fmt.Sprintf("ns%d", space)
		for i := range each {
			w.target(name(i), 1)
			h := autoscalerOf(w.namespace, name(i))
			w.seen(h)
		}
		for i := range each {
			w.source.samples = map[string]sample{name(i) + "-0": {value: 500, at: time.Now(), window: time.Minute}}
			if err := w.sync(t.Context(), w.namespace+"/"+name(i)); err == nil || !strings.Contains(err.Error(), "next look") {
				t.Fatal(name(i), err)
			}
		}
		if at := w.selectors.spaces[w.namespace]; len(at.byPair) != each || len(at.others) != 0 {
			t.Fatalf("selectors of %s lie in %d lists", w.namespace, len(at.byPair))
		}
	}
	const many = spaces * each
	if w.targets.finds != many || w.source.asked != many || writes != many || len(w.targets.sizes) != 0 {
		t.Errorf("%d reads of targets, %d of metrics, %d writes, %d sizes", w.targets.finds, w.source.asked, writes, len(w.targets.sizes))
	}
	if n := w.selectors.size(); n != many {
		t.Errorf("%d autoscalers are known", n)
	}
}

func autoscalerOf(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	percent := int32(50)
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name},
			Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
				Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			}}},
		},
	}
}

// However often an autoscaler changes, it is looked at once a period, and again after a
// failure only then.
func TestLooksArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.targets.err = fmt.Errorf("nothing is served")
		h := w.hpa("web", "web", cpuHalf)
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.loop.Run(t.Context())
		}()
		for range 600 {
			w.changed(h, h)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if w.targets.finds < 3 || w.targets.finds > 4 {
			t.Errorf("%d looks in a minute", w.targets.finds)
		}
		w.loop.Close()
	})
}
