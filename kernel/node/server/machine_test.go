package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
)

// desk is a server, at which each user may get the subresource of nodes by which it is named.
func desk(t *testing.T, logs string) func(user, path string) (int, string) {
	t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		r.Status.Authenticated, r.Status.User.Username = true, r.Spec.Token
		return true, r, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		r := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		at := r.Spec.ResourceAttributes
		r.Status.Allowed = at.Subresource == r.Spec.User && at.Verb == "get"
		return true, r, nil
	})
	conn, err := cri.Connect(critest.New(t).Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := New(Config{NodeName: "n", RootDir: t.TempDir(), SystemLogs: logs, Settings: &kubeletv1beta1.KubeletConfiguration{MaxPods: 7}},
		Deps{Client: client, CRI: cri.New(conn, "n"), Logger: slog.New(slog.DiscardHandler)})
	return func(user, path string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+user)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
}

// TestMachine: D12: the node's figures are the machine's, in the kubelet's forms, for those who may see them.
func TestMachine(t *testing.T) {
	get := desk(t, t.TempDir())
	code, body := get("stats", "/stats/summary")
	var sum stats.Summary
	if err := json.Unmarshal([]byte(body), &sum); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v %s", code, err, body)
	}
	n := sum.Node
	if n.CPU == nil || *n.CPU.UsageCoreNanoSeconds == 0 || n.Memory == nil || *n.Memory.WorkingSetBytes == 0 || n.Fs == nil || n.Rlimit == nil || n.Network == nil {
		t.Errorf("no pod runs, and the machine does nothing: %s", body)
	}
	if len(n.SystemContainers) != 1 || n.SystemContainers[0].Name != "pods" || *n.SystemContainers[0].Memory.WorkingSetBytes != 0 {
		t.Errorf("pods use something: %+v", n.SystemContainers)
	}
	code, body = get("metrics", "/metrics/resource")
	for _, want := range []string{"node_cpu_usage_seconds_total ", "node_memory_working_set_bytes ", "resource_scrape_error 0"} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %s:\n%s", code, want, body)
		}
	}
	if code, body := get("configz", "/configz"); code != http.StatusOK || !strings.Contains(body, `{"kubeletconfig":{`) || !strings.Contains(body, `"maxPods":7`) {
		t.Errorf("%d %s", code, body)
	}
	for user, path := range map[string]string{"pods": "/metrics/resource", "stats": "/configz", "metrics": "/stats/summary", "healthz": "/logs/"} {
		if code, _ := get(user, path); code != http.StatusForbidden {
			t.Errorf("%s may get %s: %d", user, path, code)
		}
	}
}

// TestSystemLogs: the machine's logs are answered to those who may get nodes/log; no link, no path and no pipe leads to
// anything else, whoever put it there.
func TestSystemLogs(t *testing.T) {
	dir := t.TempDir()
	logs := filepath.Join(dir, "log")
	if err := os.MkdirAll(filepath.Join(logs, "pods"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"log/syslog": "words of the machine", "shadow": "secret", "log/pods/a.log": "words of a pod"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"absolute": filepath.Join(dir, "shadow"), "relative": "../shadow", "folder": "..", "within": "pods/a.log"} {
		if err := os.Symlink(to, filepath.Join(logs, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(logs, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	get := desk(t, logs)
	for path, want := range map[string]string{"/logs/syslog": "words of the machine", "/logs/pods/a.log": "words of a pod", "/logs/within": "words of a pod", "/logs/": "syslog"} {
		if code, body := get("log", path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	for _, path := range []string{"/logs/absolute", "/logs/relative", "/logs/folder/shadow", "/logs/../shadow", "/logs/%2e%2e/shadow", "/logs/..%2fshadow", "/logs/pipe", "/logs/none"} {
		if code, body := get("log", path); code == http.StatusOK || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	for _, user := range []string{"proxy", "stats", ""} {
		if code, body := get(user, "/logs/syslog"); code == http.StatusOK {
			t.Errorf("%q reads %q", user, body)
		}
	}
	if code, _ := desk(t, filepath.Join(dir, "none"))("log", "/logs/"); code != http.StatusNotFound {
		t.Errorf("without logs: %d", code)
	}
}
