package probe

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHTTP: 001 §11: 200 <= code < 400 is success; headers, named ports, redirects to other hosts are warnings.
func TestHTTP(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusFound)
		case "/header":
			if r.Header.Get("X-Test") != "yes" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") || r.URL.Query().Get("q") != "1" {
				w.WriteHeader(http.StatusTeapot)
			}
		default:
			code, _ := strconv.Atoi(r.URL.Path[1:])
			w.WriteHeader(code)
		}
	}))
	defer s.Close()
	u, _ := url.Parse(s.URL)
	port, _ := strconv.Atoi(u.Port())
	c := &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}
	for path, want := range map[string]Outcome{"/200": Success, "/204": Success, "/302": Warning, "/399": Warning, "/400": Failure, "/500": Failure, "/away": Warning, "/header?q=1": Success} {
		p := &corev1.Probe{TimeoutSeconds: 60, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web"), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Test", Value: "yes"}}}}}
		got, message, err := attempt(t.Context(), nil, p, c, "id", "127.0.0.1")
		if got != want && !(path == "/302" && got == Success) || err != nil {
			t.Errorf("%s: %v %q %v, want %v", path, got, message, err, want)
		}
		if path == "/500" && message != "HTTP probe failed with statuscode: 500" {
			t.Errorf("message %q", message)
		}
	}
	bad := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("none")}}}
	if got, _, err := attempt(t.Context(), nil, bad, c, "id", "127.0.0.1"); got != Unknown || err == nil {
		t.Errorf("unknown port: %v %v", got, err)
	}
}

// TestGRPCConnectsAgain: a first connection that is lost is not the probe's answer while there is time, and no proxy of
// the environment comes between.
func TestGRPCConnectsAgain(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	healthpb.RegisterHealthServer(g, health.NewServer())
	var wg sync.WaitGroup
	wg.Go(func() {
		first, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_ = first.Close()
		_ = g.Serve(l)
	})
	defer func() { g.Stop(); wg.Wait() }()
	handler := corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(l.Addr().(*net.TCPAddr).Port)}}
	got, message, err := attempt(t.Context(), nil, &corev1.Probe{ProbeHandler: handler, TimeoutSeconds: 30}, &corev1.Container{}, "id", "127.0.0.1")
	if got != Success || err != nil {
		t.Fatalf("%v %q %v", got, message, err)
	}
}

// TestOthers: 001 §11: tcp, grpc and exec.
func TestOthers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	h := health.NewServer()
	h.SetServingStatus("up", healthpb.HealthCheckResponse_SERVING)
	h.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
	healthpb.RegisterHealthServer(g, h)
	go func() { _ = g.Serve(l) }()
	defer g.Stop()
	port := int32(l.Addr().(*net.TCPAddr).Port)
	const free = 1 // no port that this or another test may be given
	exec := func(_ context.Context, id string, command []string, _ time.Duration) (int, []byte, error) {
		switch command[0] {
		case "slow":
			return -1, nil, context.DeadlineExceeded
		case "broken":
			return -1, nil, errors.New("no such container")
		}
		n, _ := strconv.Atoi(command[1])
		return n, []byte("said " + id), nil
	}
	tcp := func(p int32) corev1.ProbeHandler {
		return corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(p)}}
	}
	rpc := func(p int32, service string) corev1.ProbeHandler {
		return corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: p, Service: &service}}
	}
	run := func(command ...string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}
	}
	for _, c := range []struct {
		name    string
		handler corev1.ProbeHandler
		want    Outcome
		message string
		err     bool
	}{
		{"tcp open", tcp(port), Success, "", false},
		{"tcp closed", tcp(free), Failure, "connection refused", false},
		{"grpc serving", rpc(port, "up"), Success, "service healthy", false},
		{"grpc not serving", rpc(port, "down"), Failure, `service unhealthy (responded with "NOT_SERVING")`, false},
		{"grpc unknown service", rpc(port, "none"), Failure, "error: health rpc probe failed", false},
		{"grpc closed", rpc(free, ""), Failure, "timeout: failed to connect service", false},
		{"exec 0", run("x", "0"), Success, "said id", false},
		{"exec 1", run("x", "1"), Failure, "said id", false},
		{"exec too slow", run("slow"), Failure, "timed out after 1s", false},
		{"exec not run", run("broken"), Unknown, "", true},
		{"expanded", run("x", "$(CODE)"), Failure, "said id", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := int32(60)
			if c.handler.GRPC != nil && c.handler.GRPC.Port == free || strings.Contains(c.message, "1s") {
				limit = 1
			}
			got, message, err := attempt(t.Context(), exec, &corev1.Probe{ProbeHandler: c.handler, TimeoutSeconds: limit}, &corev1.Container{Env: []corev1.EnvVar{{Name: "CODE", Value: "3"}}}, "id", "127.0.0.1")
			if got != c.want || !strings.Contains(message, c.message) || (err != nil) != c.err {
				t.Fatalf("%v %q %v", got, message, err)
			}
		})
	}
}

// TestSimulated: 001 §11: where no process runs, probes over the network succeed without a connection, and exec is asked.
func TestSimulated(t *testing.T) {
	port := intstr.FromInt32(1) // nobody listens
	for _, c := range []struct {
		name    string
		handler corev1.ProbeHandler
		want    Outcome
	}{
		{"http", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: port}}, Success},
		{"tcp", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port}}, Success},
		{"grpc", corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}, Success},
		{"exec", corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, Failure},
	} {
		for _, simulated := range []bool{true, false} {
			m := New(Deps{Simulated: simulated, Exec: func(context.Context, string, []string, time.Duration) (int, []byte, error) { return 1, nil, nil }})
			w := &worker{m: m, probe: &corev1.Probe{ProbeHandler: c.handler, TimeoutSeconds: 1}, container: &corev1.Container{}, id: "fake://1"}
			want := c.want
			if !simulated {
				want = Failure
			}
			if got, message := w.ask(t.Context(), "127.0.0.1"); got != want {
				t.Errorf("%s, simulated %v: %s %s, want %s", c.name, simulated, got, message, want)
			}
			m.Close()
		}
	}
}

// TestThresholds: 001 §11, D-6: a readiness result needs its thresholds in a row; unknown answers change nothing; a
// container that ran before the agent did keeps its standing.
func TestThresholds(t *testing.T) {
	answers := make(chan int)
	var mu sync.Mutex
	status := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "fake://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	started := true
	status.ContainerStatuses[0].Started = &started
	changed := make(chan struct{}, 100)
	m := New(Deps{
		Exec: func(context.Context, string, []string, time.Duration) (int, []byte, error) {
			return <-answers, nil, nil
		},
		Status:  func(types.UID) (corev1.PodStatus, bool) { mu.Lock(); defer mu.Unlock(); return status, true },
		Event:   func(*corev1.Pod, string, string, string, string) {},
		Changed: func(types.UID) { changed <- struct{}{} },
		Logger:  slog.New(slog.DiscardHandler),
	})
	// Younger than the manager, so that nothing is taken over and no start is spread.
	status.ContainerStatuses[0].State.Running.StartedAt = metav1.Now()
	c := corev1.Container{Name: "c", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, PeriodSeconds: 3600, SuccessThreshold: 2, FailureThreshold: 3}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	m.Set(pod)
	if m.Ready(&c, "1") {
		t.Fatal("ready before any answer")
	}
	for i, step := range []struct {
		exit  int
		ready bool
	}{{0, false}, {0, true}, {1, true}, {1, true}, {0, true}, {1, true}, {1, true}, {1, false}, {0, false}, {0, true}} {
		m.Poke("u") // the next round now instead of in an hour
		answers <- step.exit
		// The round is over when the next one takes an answer; look before it does.
		deadline := time.After(2 * time.Minute)
		for m.Ready(&c, "fake://1") != step.ready {
			select {
			case <-deadline:
				t.Fatalf("step %d: ready is not %v", i, step.ready)
			case <-time.After(time.Millisecond):
			}
		}
	}
	m.Close()
	if len(changed) != 3 {
		t.Fatalf("%d changes told, want 3", len(changed))
	}
}
