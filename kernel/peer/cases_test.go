package peer

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"pintle.dev/pintle/kernel/scheduler"
)

// cluster is a line of the file: a picture, the pods that are asked about, and
// kube-scheduler's answers. e2e/peer/scheduling/cluster.go says what they mean.
type cluster struct {
	ID      string            `json:"id"`
	Family  string            `json:"family"`
	Config  []pluginConfig    `json:"pluginConfig"`
	Nodes   []*v1.Node        `json:"nodes"`
	Pods    []*v1.Pod         `json:"pods"`
	Objects []json.RawMessage `json:"objects"`
	Ask     []*v1.Pod         `json:"ask"`
	Answers []*answer         `json:"answers"`
}

type pluginConfig struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type answer struct {
	Whole      *verdict                       `json:"whole"`
	Refusals   map[string]map[string]*verdict `json:"refusals"`
	First      map[string]string              `json:"first"`
	Scores     map[string]map[string]int64    `json:"scores"`
	Preemption *preemption                    `json:"preemption"`
	Message    string                         `json:"message"`
	Error      string                         `json:"error"`
}

type verdict struct {
	Plugin  string   `json:"plugin"`
	Final   bool     `json:"final"`
	Reasons []string `json:"reasons"`
}

type preemption struct {
	Candidates map[string]candidate `json:"candidates"`
	Chosen     []string             `json:"chosen"`
	Message    string               `json:"message"`
}

type candidate struct {
	Victims    []string `json:"victims"`
	Violations int64    `json:"violations"`
}

// picture is the cluster as the scheduler takes it in.
func (c *cluster) picture(t *testing.T) *scheduler.Cluster {
	t.Helper()
	out := &scheduler.Cluster{Nodes: c.Nodes, Pods: c.Pods}
	for _, raw := range c.Objects {
		o, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		if err := out.Add(o); err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
	}
	return out
}

// cases reads the checked-in clusters, or those that PEER_CASES names.
func cases(t *testing.T) []*cluster {
	t.Helper()
	path := os.Getenv("PEER_CASES")
	if path == "" {
		path = "testdata/scheduling.jsonl.gz"
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := io.Reader(f)
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	d := json.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	var out []*cluster
	for {
		c := &cluster{}
		if err := d.Decode(c); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: after %d clusters: %v", path, len(out), err)
		}
		out = append(out, c)
	}
}
