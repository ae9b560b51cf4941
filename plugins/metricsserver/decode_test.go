package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const whole = `# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 100.5
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 4096
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} 2.5 1700000000500
container_cpu_usage_seconds_total{container="b",namespace="ns",pod="p"} 1
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="a",namespace="ns",pod="p"} 1000
container_memory_working_set_bytes{container="b",namespace="ns",pod="p"} 2000
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="a",namespace="ns",pod="p"} 1.6999999995e+09
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 99
`

func TestDecode(t *testing.T) {
	at := time.Unix(1_700_000_100, 0)
	batch, err := decode(strings.NewReader(whole), at, "n")
	if err != nil {
		t.Fatal(err)
	}
	node := batch.Nodes["n"]
	if node.CumulativeCPUUsed != 100_500_000_000 || node.MemoryUsage != 4096 || !node.Timestamp.Equal(at) {
		t.Errorf("node %+v", node)
	}
	of := batch.Pods[types.NamespacedName{Namespace: "ns", Name: "p"}].Containers
	if len(batch.Pods) != 1 || len(of) != 2 {
		t.Fatalf("pods %+v", batch.Pods)
	}
	a := of["a"]
	if a.CumulativeCPUUsed != 2_500_000_000 || a.MemoryUsage != 1000 || a.Timestamp.UnixMilli() != 1_700_000_000_500 || a.StartTime.UnixMilli() != 1_699_999_999_500 {
		t.Errorf("container a %+v", a)
	}
	if b := of["b"]; !b.Timestamp.Equal(at) || !b.StartTime.IsZero() {
		t.Errorf("container b %+v", b)
	}
}

// What a node answers that is broken, or lies: no measurement comes of it, or a number
// that there is.
func TestDecodeRubbish(t *testing.T) {
	const cpu, memory = `container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} `, `container_memory_working_set_bytes{container="a",namespace="ns",pod="p"} `
	for name, tt := range map[string]struct {
		text        string
		nodes, pods int
		fails       bool
	}{
		"nothing":                {},
		"HTML":                   {text: "<html>\n", fails: true},
		"cut off":                {text: whole[:len(whole)-30], fails: true},
		"NUL":                    {text: "\x00\x00\n", fails: true},
		"no CPU of the node":     {text: "node_memory_working_set_bytes 1\n"},
		"no memory of it":        {text: "node_cpu_usage_seconds_total 1\n"},
		"both":                   {text: "node_cpu_usage_seconds_total 1\nnode_memory_working_set_bytes 1\n", nodes: 1},
		"NaN":                    {text: "node_cpu_usage_seconds_total NaN\nnode_memory_working_set_bytes 1\n" + cpu + "NaN\n" + memory + "NaN\n"},
		"infinite":               {text: "node_cpu_usage_seconds_total +Inf\nnode_memory_working_set_bytes 1e300\n" + cpu + "1e300\n" + memory + "+Inf\n", nodes: 1, pods: 1},
		"negative":               {text: "node_cpu_usage_seconds_total -1\nnode_memory_working_set_bytes 1\n" + cpu + "-1\n" + memory + "1\n"},
		"a pod without memory":   {text: cpu + "1\n"},
		"labels are missing":     {text: "container_cpu_usage_seconds_total 1\ncontainer_memory_working_set_bytes 1\n", pods: 1}, // of a pod that there is not
		"twice":                  {text: cpu + "1\n" + cpu + "2\n" + memory + "1\n", pods: 1},
		"another type":           {text: "# TYPE node_cpu_usage_seconds_total histogram\nnode_cpu_usage_seconds_total_count 1\nnode_memory_working_set_bytes 1\n"},
		"times out of the world": {text: cpu + "1 9223372036854775807\n" + memory + "1 -9223372036854775808\ncontainer_start_time_seconds{container=\"a\",namespace=\"ns\",pod=\"p\"} 1e300\n", pods: 1},
		"a long line":            {text: `container_cpu_usage_seconds_total{pod="` + strings.Repeat("p", 1<<20) + `"} 1` + "\n", fails: true},
		"a long name":            {text: `container_cpu_usage_seconds_total{pod="` + strings.Repeat("p", 254) + `"} 1` + "\n", fails: true},
		"the longest name":       {text: `container_cpu_usage_seconds_total{pod="` + strings.Repeat("p", 253) + `"} 1` + "\n"},
		"many lines":             {text: strings.Repeat("a 1\n", mostLines+1), fails: true},
		"as many as may be":      {text: strings.Repeat("a 1\n", mostLines)},
		"many bytes":             {text: strings.Repeat("# "+strings.Repeat("x", 8000)+"\n", 600), fails: true},
		"many containers":        {text: containersOf(mostContainers + 1), fails: true},
		"as many":                {text: containersOf(mostContainers), pods: mostContainers / 2},
	} {
		t.Run(name, func(t *testing.T) {
			batch, err := decode(strings.NewReader(tt.text), time.Now(), "n")
			if tt.fails {
				if err == nil {
					t.Fatalf("%+v", batch)
				}
				return
			}
			if err != nil || len(batch.Nodes) != tt.nodes || len(batch.Pods) != tt.pods {
				t.Errorf("%d nodes, %d pods, %v", len(batch.Nodes), len(batch.Pods), err)
			}
		})
	}
	if unsigned(math.NaN()) != 0 || unsigned(1e300) != math.MaxInt64 || unsigned(-1) != 0 {
		t.Error("numbers")
	}
}

// containersOf is what a node answers that has n containers, two a pod.
func containersOf(n int) string {
	var text strings.Builder
	for _, name := range []string{containerCPU, containerMemory} {
		for i := range n {
			fmt.Fprintf(&text, "%s{container=\"c%d\",namespace=\"a-namespace\",pod=\"a-pod-%d\"} 1 1700000000500\n", name, i%2, i/2)
		}
	}
	return text.String()
}

// An answer of short lines, or of as many names as lines, takes little memory.
func TestDecodeFlood(t *testing.T) {
	var names strings.Builder
	for i := range 1 << 20 {
		fmt.Fprintf(&names, "a%d 1\n", i)
	}
	for name, text := range map[string]string{"lines": strings.Repeat("a 1\n", 2<<20), "names": names.String()} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := decode(strings.NewReader(text), time.Now(), "n")
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || took > 64<<20 {
			t.Errorf("%s: %d MiB, %v", name, took>>20, err)
		}
	}
}

// However an answer comes, it is decoded alike. One that breaks off fails, at the end of a
// line too.
func TestDecodePieces(t *testing.T) {
	text := whole + containersOf(100)
	for name, answer := range map[string]io.Reader{
		"at once": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)),
		"halves": iotest.HalfReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text)),
	} {
		batch, err := decode(answer, time.Now(), "n")
		if err != nil || len(batch.Nodes) != 1 || len(batch.Pods) != 51 {
			t.Errorf("%s: %+v, %v", name, batch, err)
		}
	}
	if _, err := decode(io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF)), time.Now(), "n"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(whole))
	f.Fuzz(func(t *testing.T, text []byte) {
		if batch, err := decode(bytes.NewReader(text), time.Now(), "n"); err == nil && len(batch.Nodes) > 1 {
			t.Errorf("%d nodes", len(batch.Nodes))
		}
	})
}
