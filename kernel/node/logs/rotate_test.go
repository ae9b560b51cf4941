package logs

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
)

// TestRotate: 10 MiB × 5 in small: size and number are kept, older rotations are compressed and complete.
func TestRotate(t *testing.T) {
	r := critest.New(t)
	client, err := cri.Dial(r.Endpoint, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	log := filepath.Join(t.TempDir(), "0.log")
	r.Containers["c"] = &critest.Container{ID: "c", Config: &runtimeapi.ContainerConfig{Labels: map[string]string{cri.LabelPodUID: "u"}, Metadata: &runtimeapi.ContainerMetadata{Name: "x"}},
		Status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING, LogPath: log, Metadata: &runtimeapi.ContainerMetadata{Name: "x"}}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rot := NewRotator(10, 3, client, slog.New(slog.DiscardHandler))
	rot.now = func() time.Time { now = now.Add(time.Second); return now }
	for _, content := range []string{"first generation", "second generation", "third generation", "fourth generation", "small"} {
		if err := os.WriteFile(log, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rot.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(log + "*")
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f, log))
	}
	if want := []string{"", ".20260101-000003.gz", ".20260101-000004"}; !slices.Equal(names, want) {
		t.Fatalf("files %v, want %v", names, want)
	}
	f, err := os.Open(log + names[1])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(z); err != nil || string(data) != "third generation" {
		t.Fatalf("%q %v", data, err)
	}
	if data, _ := os.ReadFile(log); string(data) != "small" {
		t.Fatalf("current log %q", data)
	}
}

// TestRead: streams apart, times, tail, limit.
func TestRead(t *testing.T) {
	log := filepath.Join(t.TempDir(), "0.log")
	if err := os.WriteFile(log, []byte("2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:01Z stderr F two\n2026-01-01T00:00:02Z stdout F three\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := func(i int64) *int64 { return &i }
	for _, c := range []struct {
		name     string
		o        corev1.PodLogOptions
		out, err string
	}{
		{"all", corev1.PodLogOptions{}, "one\nthree\n", "two\n"},
		{"tail", corev1.PodLogOptions{TailLines: n(1)}, "three\n", ""},
		{"times", corev1.PodLogOptions{Timestamps: true, TailLines: n(1)}, "2026-01-01T00:00:02.000000000Z three\n", ""},
		{"limit", corev1.PodLogOptions{LimitBytes: n(2)}, "on", ""},
	} {
		var out, errOut bytes.Buffer
		if err := Read(t.Context(), nil, log, "", &c.o, &out, &errOut); err != nil || out.String() != c.out || errOut.String() != c.err {
			t.Errorf("%s: %q %q %v", c.name, out.String(), errOut.String(), err)
		}
	}
}
